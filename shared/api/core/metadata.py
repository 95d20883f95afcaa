"""Metadata of an object from an API server or a file; missing or invalid fields count as absent.

A pool's annotations under ``dovetail.sh`` are settings for which Karpenter's API has no field. An invalid value is a
fault of the pool, because a misspelled kill switch must not seem to work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shared.api.core.label_syntax import LONGEST_LABEL_VALUE
from shared.api.faults import Fault, Parsed, Path
from shared.api.schema.pool_capacity import (
    LONGEST_TEXT,
    hours_text,
    kept_text,
    read_headroom,
    read_hours,
    read_minimum,
)
from shared.domain import labels as keys
from shared.domain.durations import PATTERN as DURATION_PATTERN
from shared.domain.durations import go_duration_seconds
from shared.domain.pools.node_price import ALLOWED as ALLOWED_NODE_PRICE
from shared.domain.pools.node_price import PATTERN as NODE_PRICE_PATTERN
from shared.domain.pools.node_price import node_price_text, read_node_price
from shared.domain.pools.nodepools import (
    APPROVABLE,
    CONSOLIDATORS,
    INTERRUPTION_MODES,
    REBALANCE_ACTIONS,
    NodePool,
    PackingPolicy,
)

ON, OFF, REQUIRED = "on", "off", "required"
_COUNT = re.compile(r"[0-9]{1,6}")
LONGEST_SECONDS = 30 * 24 * 3600.0
_NOT_NEGATIVE = f"size(v) <= {LONGEST_TEXT} && !v.matches('[a-z][\"]?[ ]*:[ ]*[\"]?-[0-9.]')"


class Metadata(NamedTuple):
    """The metadata that records hold. An object from a file has neither uid nor generation."""

    name: str = ""
    uid: str = ""
    generation: int = 0
    terminating: bool = False
    choices: Mapping[str, Any] = {}
    """For a pool: the fields of NodePool that its annotations set."""


class Choice(NamedTuple):
    """One annotation of a pool: the field it sets, its parser, and its allowed values for messages."""

    annotation: str
    field: str
    value: Callable[[str], Any]
    """Parses the annotation; None for a value that is not allowed."""
    allowed: str
    text: Callable[[Any], str] = str
    faults: Callable[[str], tuple[Fault, ...]] = lambda _: ()
    """Of an annotation with structure: what is wrong with which part."""
    cel: str = "true"
    """The same check over the text ``v``, for admission policies. CEL reads no YAML: it may accept more, never less."""


def _one_of(annotation: str, field: str, values: tuple[str, ...]) -> Choice:
    allowed = dict(zip(values, values, strict=True))
    known = [str(value) for value in values]
    return Choice(
        annotation, field, allowed.get, f"one of {', '.join(values)}", cel=f"v in {known}"
    )


def _switch(annotation: str, field: str) -> Choice:
    """A field that is True when something is off."""
    words = {False: ON, True: OFF}
    return Choice(
        annotation,
        field,
        {ON: False, OFF: True}.get,
        f"one of {ON}, {OFF}",
        words.__getitem__,
        cel=f"v in {[ON, OFF]}",
    )


def _structured(
    annotation: str, field: str, read: Callable[[str], Parsed[Any]], text: Callable[[Any], str]
) -> Choice:
    """A field whose annotation is YAML."""
    return Choice(
        annotation,
        field,
        lambda w: read(w).record,
        "YAML of an entry or a list of entries, without negative amounts",
        text,
        lambda w: read(w).faults,
        cel=_NOT_NEGATIVE,
    )


def _count(written: str) -> int | None:
    return int(written) if _COUNT.fullmatch(written) else None


def _percent(written: str) -> int | None:
    number = written.removesuffix("%")
    return (
        int(number)
        if number != written and _COUNT.fullmatch(number) and int(number) <= 100
        else None
    )


def _seconds(written: str) -> float | None:
    seconds = go_duration_seconds(written)
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_SECONDS else None


def _duration(annotation: str, field: str) -> Choice:
    """A field in seconds."""
    return Choice(
        annotation,
        field,
        _seconds,
        "a duration such as 24h, at most 720h",
        lambda seconds: f"{seconds:.3f}s",
        cel=f"v == '0' || v.matches('^{DURATION_PATTERN}$') && "
        f"duration(v) <= duration('{int(LONGEST_SECONDS)}s')",
    )


def _approval(written: str) -> tuple[str, ...] | None:
    """The reasons, sorted and each once."""
    if written.strip() == REQUIRED:
        return APPROVABLE
    names = {name.strip() for name in written.split(",")}
    return tuple(sorted(names)) if names <= set(APPROVABLE) else None


def _approval_text(reasons: tuple[str, ...]) -> str:
    return REQUIRED if reasons == APPROVABLE else ",".join(reasons)


POOL_CHOICES = (
    _one_of(keys.PACKING_ANNOTATION, "packing", tuple(PackingPolicy)),
    Choice(
        keys.NODE_PRICE_ANNOTATION,
        "node_price",
        read_node_price,
        ALLOWED_NODE_PRICE,
        node_price_text,
        cel=f"v.matches('^{NODE_PRICE_PATTERN}$')",
    ),
    _one_of(keys.CONSOLIDATION_ANNOTATION, "consolidator", CONSOLIDATORS),
    _switch(keys.DISRUPTION_ANNOTATION, "disruption_off"),
    Choice(
        keys.APPROVAL_ANNOTATION,
        "approval",
        _approval,
        f"{REQUIRED}, or some of {', '.join(APPROVABLE)}, separated by commas",
        _approval_text,
        cel=f"v.trim() == '{REQUIRED}' || v.split(',').all(r, r.trim() in {list(APPROVABLE)})",
    ),
    Choice(
        keys.DISRUPTIONS_PER_HOUR_ANNOTATION,
        "most_disruptions_per_hour",
        _count,
        "a count such as 20",
        cel=f"v.matches('^{_COUNT.pattern}$')",
    ),
    _one_of(keys.INTERRUPTION_ANNOTATION, "interruption", INTERRUPTION_MODES),
    _one_of(keys.REBALANCE_ANNOTATION, "rebalance", REBALANCE_ACTIONS),
    _duration(keys.MAINTENANCE_LEAD_ANNOTATION, "maintenance_lead_seconds"),
    _switch(keys.WEBHOOK_ANNOTATION, "webhook_off"),
    Choice(
        keys.UTILIZATION_ANNOTATION,
        "utilization_threshold",
        _percent,
        "a percentage such as 50%",
        lambda percent: f"{percent}%",
        cel=f"v.matches('^{_COUNT.pattern}%$') && int(v.substring(0, size(v) - 1)) <= 100",
    ),
    _duration(keys.DELAY_AFTER_ADD_ANNOTATION, "delay_after_add"),
    _duration(keys.DELAY_AFTER_DELETE_ANNOTATION, "delay_after_delete"),
    _duration(keys.DELAY_AFTER_FAILURE_ANNOTATION, "delay_after_failure"),
    _structured(keys.MINIMUM_ANNOTATION, "minimum", read_minimum, kept_text),
    _structured(keys.HEADROOM_ANNOTATION, "headroom", read_headroom, kept_text),
    _structured(keys.HOURS_ANNOTATION, "hours", read_hours, hours_text),
    Choice(
        keys.OUTSIDE_HOURS_ANNOTATION,
        "drains_when_closed",
        {"keep": False, "drain": True}.get,
        "one of keep, drain",
        {False: "keep", True: "drain"}.__getitem__,
        cel="v in ['keep', 'drain']",
    ),
)


def read_metadata(raw: Mapping[str, Any]) -> Metadata:
    """The metadata of a whole object. Never raises."""
    meta = raw.get("metadata")
    if not isinstance(meta, Mapping):
        return Metadata()
    name, uid, generation = (meta.get(key) for key in ("name", "uid", "generation"))
    return Metadata(
        name=name if isinstance(name, str) else "",
        uid=uid if isinstance(uid, str) else "",
        generation=generation if type(generation) is int else 0,
        terminating=meta.get("deletionTimestamp") is not None,
        choices={
            choice.field: value
            for choice, written in _written(meta)
            if (value := choice.value(written)) is not None
        },
    )


def name_faults(raw: Mapping[str, Any], path: Path = ("metadata", "name")) -> tuple[Fault, ...]:
    """The fault of a pool's or a node class' name that no label can hold: every machine has it as the value of one."""
    name: object = raw
    for part in path:
        name = name.get(part) if isinstance(name, Mapping) else None
    if not isinstance(name, str) or len(name) <= LONGEST_LABEL_VALUE:
        return ()
    text = (
        f"has {len(name)} characters, and a label of every machine holds it; "
        f"use at most {LONGEST_LABEL_VALUE}"
    )
    return (Fault(path, text),)


def choice_faults(raw: Mapping[str, Any]) -> tuple[Fault, ...]:
    """The faults of a pool's annotations under ``dovetail.sh``."""
    meta = raw.get("metadata")
    if not isinstance(meta, Mapping):
        return ()
    return tuple(
        Fault(("metadata", "annotations", choice.annotation, *fault.path), fault.message)
        for choice, written in _written(meta)
        if choice.value(written) is None
        for fault in choice.faults(written)
        or (Fault((), f"{written[:40]!r} is not {choice.allowed}"),)
    )


def _written(meta: Mapping[str, Any]) -> list[tuple[Choice, str]]:
    """Each choice with the value of its annotation; an empty annotation counts as absent."""
    annotations = meta.get("annotations")
    if not isinstance(annotations, Mapping):
        return []
    values = ((choice, annotations.get(choice.annotation)) for choice in POOL_CHOICES)
    return [(choice, str(written)) for choice, written in values if written not in (None, "")]


def pool_metadata(pool: NodePool) -> dict[str, Any]:
    """The inverse of ``read_metadata``: ``metadata`` of the pool's document."""
    fresh = NodePool(uid="", name="")
    annotations = {
        choice.annotation: choice.text(value)
        for choice in POOL_CHOICES
        if (value := getattr(pool, choice.field)) != getattr(fresh, choice.field)
    }
    return {"name": pool.name, **({"annotations": annotations} if annotations else {})}
