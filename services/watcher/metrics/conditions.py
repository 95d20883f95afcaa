"""Counts how status conditions of nodes, machines, pools and node classes change, as the watches show (MET-11).

Of an object its UID, its conditions and their times are kept. The first state of an object is no change; a condition
that appears later was Unknown before, since the object's creation. Only the leading watcher counts and serves. What
may go wrong: nobody leads for a while; what changes meanwhile is not counted. Another controller writes a text into
``reason`` that is never the same: above ``MOST_SERIES`` combinations the reason of new ones becomes ``other``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from sys import intern
from typing import Any, NamedTuple

from services.watcher.conversion import Kind
from shared.api.conditions import known_conditions
from shared.concurrency.clock import Clock, parse_rfc3339
from shared.domain.machines.machine import Condition
from shared.domain.records import MACHINES, NODE_CLASSES, NODE_POOLS, NODES
from shared.metrics import Metrics
from shared.metrics import conditions as names
from shared.metrics.exposition.text import block, labelled

MOST_SERIES = 500
"""Combinations of type, status and reason per kind (MET-13)."""
OTHER = "other"
UNKNOWN = "Unknown"
_KINDS = dict(zip((MACHINES, NODES, NODE_POOLS, NODE_CLASSES), names.OBSERVED, strict=True))
Json = Mapping[str, Any]
State = tuple[str, str, str]
"""Type, status, reason."""


class Seen(NamedTuple):
    """One object. Its conditions carry no message. Times are seconds since the epoch."""

    conditions: dict[str, Condition]
    whose: str
    """The labels that name it."""
    deleted_at: float | None = None


class Conditions:
    """``note`` runs on the loop, ``text`` in the threads of whoever scrapes."""

    def __init__(self, metrics: Metrics, clock: Clock, leads: Callable[[], bool]) -> None:
        self._metrics, self._clock, self._leads = metrics, clock, leads
        self._seen: dict[str, dict[str, Seen]] = {kind: {} for kind in names.OBSERVED}
        """Kind -> UID -> its last state."""
        self._reasons: dict[str, set[State]] = {kind: set() for kind in names.OBSERVED}

    def note(self, kind: Kind, raw: Json) -> None:
        """An object was seen; other kinds are passed by."""
        observed = _KINDS.get(kind.name)
        uid = str(raw["metadata"].get("uid") or "")
        if observed is None or not uid:
            return
        known_now = known_conditions(raw.get("status"))
        slim = {intern(type_): _slim(condition) for type_, condition in known_now.items()}
        known = self._seen[observed].get(uid)
        whose = known.whose if known is not None else _named(kind, raw)
        now = Seen(slim, whose, _time_of(raw, "deletionTimestamp"))
        if known is not None:
            self._count_changes(kind, raw, known, now)
        self._seen[observed][uid] = now

    def forget(self, kind: Kind, uid: str) -> None:
        """An object is gone; when it was ordered away is its last state."""
        observed = _KINDS.get(kind.name)
        known = self._seen[observed].pop(uid, None) if observed else None
        if observed and known is not None:
            self._count_end(kind, known.deleted_at)

    def text(self) -> str:
        if not self._leads():
            return ""
        objects = {kind: list(seen.values()) for kind, seen in self._seen.items()}
        counted = "".join(self._text_of(kind, seen) for kind, seen in objects.items())
        return counted + self._text_of_objects(objects)

    def _text_of(self, kind: str, objects: list[Seen]) -> str:
        now = self._clock.now()
        counts: Counter[State] = Counter()
        oldest: dict[State, float] = {}
        for one in objects:
            for type_, condition in one.conditions.items():
                state = self._bounded(kind, (type_, condition.status, condition.reason))
                counts[state] += 1
                oldest[state] = min(condition.since, oldest.get(state, condition.since))
        going = max((now - one.deleted_at for one in objects if one.deleted_at), default=0.0)
        labels = {state: labelled(names.COUNT[kind].labels, state) for state in counts}
        return "".join((
            block(names.COUNT[kind], ((labels[state], count) for state, count in counts.items())),
            block(
                names.CURRENT_SECONDS[kind],
                ((labels[state], _age(since, now)) for state, since in oldest.items() if since),
            ),
            block(names.TERMINATING_SECONDS[kind], [("", round(max(0.0, going)))]),
        ))  # fmt: skip

    def _text_of_objects(self, objects: Mapping[str, list[Seen]]) -> str:
        """Two rows for each condition, one more for an object that goes."""
        now = self._clock.now()
        rows = list(self._rows(objects))
        going = [one for seen in objects.values() for one in seen if one.deleted_at]
        return "".join((
            block(names.OBJECT_COUNT, ((text, 1) for text, _ in rows)),
            block(names.OBJECT_SECONDS, ((text, _age(since, now)) for text, since in rows if since)),
            block(
                names.OBJECT_TERMINATING,
                ((one.whose, _age(one.deleted_at or now, now)) for one in going),
            ),
        ))  # fmt: skip

    def _rows(self, objects: Mapping[str, list[Seen]]) -> Iterator[tuple[str, float]]:
        """(the labels, since when) of each condition of each object."""
        texts: dict[State, str] = {}
        for kind, seen in objects.items():
            for one in seen:
                for type_, condition in one.conditions.items():
                    state = self._bounded(kind, (type_, condition.status, condition.reason))
                    text = texts.get(state) or labelled(names.COUNT[kind].labels, state)
                    texts[state] = text
                    yield f"{one.whose},{text}", condition.since

    def _count_changes(self, watched: Kind, raw: Json, before: Seen, after: Seen) -> None:
        if not self._leads():
            return
        kind, of = _KINDS[watched.name], (watched.resource.group, watched.resource.kind)
        for type_, new in after.conditions.items():
            old = before.conditions.get(type_)
            status = old.status if old is not None else UNKNOWN
            if new.status == status:
                continue
            state = self._bounded(kind, (type_, new.status, new.reason))
            self._metrics.condition_transitions[kind].labels(*state).inc()
            self._metrics.all_condition_transitions.labels(*of, *state).inc()
            since = old.since if old is not None else _time_of(raw, "creationTimestamp")
            if since and new.since:
                seconds = max(0.0, new.since - since)
                self._metrics.condition_seconds[kind].labels(type_, status).observe(seconds)
                self._metrics.all_condition_seconds.labels(*of, type_, status).observe(seconds)

    def _count_end(self, watched: Kind, deleted_at: float | None) -> None:
        if deleted_at and self._leads():
            seconds, resource = max(0.0, self._clock.now() - deleted_at), watched.resource
            self._metrics.deletion_seconds[_KINDS[watched.name]].observe(seconds)
            self._metrics.all_deletion_seconds.labels(resource.group, resource.kind).observe(
                seconds
            )

    def _bounded(self, kind: str, state: State) -> State:
        known = self._reasons[kind]
        if state not in known and len(known) >= MOST_SERIES:
            return (*state[:2], OTHER)
        known.add(state)
        return state


def _slim(condition: Condition) -> Condition:
    """Without its message; thousands of objects share the other words."""
    return Condition(intern(condition.status), intern(condition.reason), since=condition.since)


def _named(kind: Kind, raw: Json) -> str:
    meta, resource = raw["metadata"], kind.resource
    namespace = str(meta.get("namespace") or "")
    return labelled(names.OBJECT, (namespace, str(meta["name"]), resource.group, resource.kind))


def _age(since: float, now: float) -> int:
    return round(max(0.0, now - since))


def _time_of(raw: Json, field: str) -> float | None:
    """Of the metadata; None for what is not there or no time."""
    try:
        return parse_rfc3339(str(raw["metadata"][field]))
    except (KeyError, ValueError):
        return None
