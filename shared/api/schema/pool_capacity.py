"""The annotations of pools for capacity that is kept and for opening hours, from YAML to records and back.

``dovetail.sh/minimum: "nodes: 3"``, one entry or a list of them; each may have a schedule and a duration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import yaml

from shared.api.crd.model import UNKNOWN_FIELDS, ApiModel, read
from shared.api.faults import Fault, Parsed, Path
from shared.api.schema.pool_annotations import (
    MOST_ENTRIES,
    HeadroomEntry,
    MinimumEntry,
    OpenHours,
)
from shared.api.schema.scalars import duration_seconds
from shared.domain import labels as keys
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import NODES
from shared.domain.pools.windows import KeptCapacity, Scheduled, Window
from shared.domain.resources import CPU, MEMORY, exceeded, format_amount, parse_amount
from shared.errors import InvalidObject

LONGEST_TEXT = 20_000
"""Characters of an annotation: fifty entries with room."""
Entry = TypeVar("Entry", bound=ApiModel)
Record = TypeVar("Record")


def read_minimum(written: str) -> Parsed[tuple[KeptCapacity, ...]]:
    """Of ``dovetail.sh/minimum``."""
    return _entries(written, MinimumEntry, _kept, "nodes: 2")


def read_headroom(written: str) -> Parsed[tuple[KeptCapacity, ...]]:
    """Of ``dovetail.sh/headroom``; ``20%`` alone is a percentage."""
    alone = written.strip()
    if alone.endswith("%") and ":" not in alone:
        written = f"percent: {alone}"
    return _entries(written, HeadroomEntry, _kept, "20%")


def read_hours(written: str) -> Parsed[tuple[Window, ...]]:
    """Of ``dovetail.sh/hours``."""
    return _entries(
        written,
        OpenHours,
        lambda one: Window(schedule=one.schedule or "", duration_seconds=duration_seconds(one.duration)),
        '{schedule: "0 8 * * 1-5", duration: 10h}',
    )  # fmt: skip


def kept_text(entries: tuple[KeptCapacity, ...]) -> str:
    """The inverse of ``read_minimum`` and ``read_headroom``, on one line."""
    return json.dumps([{**_amounts(entry), **_times(entry)} for entry in entries])


def hours_text(windows: tuple[Window, ...]) -> str:
    """The inverse of ``read_hours``."""
    return json.dumps([_times(window) for window in windows])


def conflicts(pool: NodePool) -> tuple[Fault, ...]:
    """What the pool's annotations ask for and its other fields make impossible."""
    at: Path = ("metadata", "annotations")
    found = []
    for annotation, entries in (
        (keys.MINIMUM_ANNOTATION, pool.minimum),
        (keys.HEADROOM_ANNOTATION, pool.headroom),
    ):
        if entries and pool.is_static:
            text = "a pool with spec.replicas has that many machines; remove one of both"
            found.append(Fault((*at, annotation), text))
        for index, entry in enumerate(entries):
            for name in exceeded(entry.amounts, pool.limits):
                limit = format_amount(name, pool.limits[name])
                text = f"is above the pool's limit, {limit}; raise the limit or lower this"
                found.append(Fault((*at, annotation, index, name), text))
    if pool.drains_when_closed and not pool.hours:
        text = f"has no effect without {keys.HOURS_ANNOTATION}; add it"
        found.append(Fault((*at, keys.OUTSIDE_HOURS_ANNOTATION), text))
    return tuple(found)


def _entries(
    written: str, model: type[Entry], record: Callable[[Entry], Record], example: str
) -> Parsed[tuple[Record, ...]]:
    """One entry or a list of them; the paths of the faults begin with the index."""
    try:
        raw = yaml.safe_load(written) if len(written) <= LONGEST_TEXT else None
    except (yaml.YAMLError, ValueError, RecursionError):
        raw = None
    listed = raw if isinstance(raw, list) else [raw]
    if not listed or not all(isinstance(one, Mapping) for one in listed):
        text = f"is not YAML of one entry or a list of entries; write for example {example}"
        return Parsed(None, (Fault((), text),))
    if len(listed) > MOST_ENTRIES:
        return Parsed(None, (Fault((), f"has more than {MOST_ENTRIES} entries"),))
    records: list[Record] = []
    faults: list[Fault] = []
    for index, one in enumerate(listed):
        entry, wrong = read(model, one, at=(index,), context=UNKNOWN_FIELDS)
        faults += wrong
        if entry is None:
            continue
        try:
            records.append(record(entry))
        except InvalidObject as error:
            faults.append(Fault((index, error.field), error.fault))
    return Parsed(None, tuple(faults)) if faults else Parsed(tuple(records))


def _kept(entry: Any) -> KeptCapacity:
    """Raises InvalidObject."""
    written = {name: getattr(entry, name, None) for name in (NODES, CPU, MEMORY)}
    amounts = {n: parse_amount(n, v, field=n) for n, v in written.items() if v is not None}
    percent = getattr(entry, "percent", None)
    return KeptCapacity(
        amounts=amounts,
        percent=int(percent.removesuffix("%")) if percent else 0,
        schedule=entry.schedule or "",
        duration_seconds=duration_seconds(entry.duration),
    )


def _amounts(entry: KeptCapacity) -> dict[str, Any]:
    amounts = {n: a if n == NODES else format_amount(n, a) for n, a in entry.amounts.items()}
    return {**({"percent": f"{entry.percent}%"} if entry.percent else {}), **amounts}


def _times(entry: Scheduled) -> dict[str, str]:
    if not entry.schedule or entry.duration_seconds is None:
        return {}
    return {"schedule": entry.schedule, "duration": f"{int(entry.duration_seconds / 60)}m"}
