"""Reads each object that the watches show, and tells all who remember objects of it.

What may go wrong: code of ours fails on one object. That must not stop the watch of ten thousand others, nor come back
with every list: it is counted, logged once per version of the object, and the object is unusable, as one with faults
of its own is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from services.watcher.conditions import Conditions
from services.watcher.journal import Journal
from services.watcher.pod_events import PodEvents
from services.watcher.records import Json, Kind
from services.watcher.statuses import Statuses
from shared.api.faults import Fault, Parsed
from shared.domain.pods import Pod
from shared.kube.informer import Deleted, Event, Key, key_of, known_of
from shared.log import get_logger
from shared.metrics import Metrics

log = get_logger(__name__)

Act = Callable[[], None]


class Sight(NamedTuple):
    """One object in one version."""

    kind: Kind
    key: Key
    version: str


@dataclass
class Intake:
    """Tell it every event of every watch. Nothing that it is told makes it raise."""

    journal: Journal
    statuses: Statuses
    conditions: Conditions
    pod_events: PodEvents
    metrics: Metrics
    _logged: dict[tuple[str, Key], str] = field(default_factory=dict)
    """Objects that failed, with the version that was logged."""

    def take(self, kind: Kind, event: Event, *, first: bool) -> None:
        """``first``: it comes from the first list."""
        if isinstance(event, Deleted):
            self._forget(kind, event)
        else:
            self._put(kind, event.object, first=first)

    def _put(self, kind: Kind, raw: dict[str, Any], *, first: bool) -> None:
        sight = Sight(kind, key_of(raw), known_of(raw).version)
        parsed = self._convert(sight, raw)
        noted = self._try(sight, partial(self.journal.note, kind, raw, parsed.record))
        if not noted:
            self._try(sight, partial(self.journal.note, kind, raw, None))
        fine = self._try_all(
            sight,
            partial(self.statuses.note, kind, raw, parsed),
            partial(self.conditions.note, kind, raw),
            partial(self._note_pod, parsed.record, first=first),
        )
        if noted and fine and parsed is not UNREADABLE:
            self._logged.pop((kind.resource.kind, sight.key), None)

    def _forget(self, kind: Kind, gone: Deleted) -> None:
        self._try_all(
            Sight(kind, gone.key, gone.version),
            partial(self.journal.forget, kind, gone),
            partial(self.statuses.forget, kind, gone.key),
            partial(self.conditions.forget, kind, gone.uid),
            partial(self.pod_events.forget, gone.uid),
        )
        self._logged.pop((kind.resource.kind, gone.key), None)

    def _convert(self, sight: Sight, raw: Json) -> Parsed[Any]:
        found: list[Parsed[Any]] = []
        self._try(sight, lambda: found.append(sight.kind.convert(raw)))
        return found[0] if found else UNREADABLE

    def _note_pod(self, record: object, *, first: bool) -> None:
        if isinstance(record, Pod):
            self.pod_events.note(record, first=first)

    def _try_all(self, sight: Sight, *acts: Act) -> bool:
        """Every one of them, whatever happens to the others."""
        return all([self._try(sight, act) for act in acts])

    def _try(self, sight: Sight, act: Act) -> bool:
        try:
            act()
        except Exception:
            # Any fault of ours in one object: the watch goes on with the others.
            kind = sight.kind.resource.kind
            self.metrics.watch_failures.labels(kind).inc()
            if self._logged.get((kind, sight.key)) != sight.version:
                self._logged[kind, sight.key] = sight.version
                log.exception(
                    "object is unusable because of a fault of Dovetail, please report it",
                    kind=kind,
                    object=str(sight.key),
                    version=sight.version,
                )
            return False
        return True


UNREADABLE: Parsed[Any] = Parsed(
    None,
    (Fault(("object",), "cannot be read because of a fault of Dovetail; its log says more"),),
)
