"""When pools are open: outside its hours a pool buys nothing, and its machines go if it asks for that. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from shared.domain.machines.machine import Machine
from shared.domain.pools.budgets import is_active
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.windows import Scheduled
from shared.domain.snapshot import Snapshot
from shared.errors import InvalidObject


def holds_at(entry: Scheduled, now: float) -> bool:
    """Does the entry hold at ``now``, in seconds since the epoch? An invalid one does not."""
    try:
        return is_active(entry, now)
    except InvalidObject:
        return False


def is_open(pool: NodePool, *, now: float) -> bool:
    """Is one of the pool's windows open at ``now``? Without windows: always."""
    return not pool.hours or any(holds_at(window, now) for window in pool.hours)


def at(snapshot: Snapshot, *, now: float) -> Snapshot:
    """The snapshot with ``closed`` set in those pools that are closed at ``now``, whatever it was before."""
    texts = {pool.key: _closed(pool, now) for pool in snapshot.pools}
    if all(pool.closed == texts[pool.key] for pool in snapshot.pools):
        return snapshot
    pools = (replace(pool, closed=texts[pool.key]) for pool in snapshot.pools)
    return replace(snapshot, pools=tuple(pools))


def outside_hours(
    machines: Iterable[Machine], pools: Iterable[NodePool], *, now: float
) -> list[Machine]:
    """The machines, by name, of closed pools whose machines go when they close."""
    keys = {p.key for p in pools if p.drains_when_closed and not is_open(p, now=now)}
    due = (m for m in machines if m.pool_key in keys and not m.terminating)
    return sorted(due, key=lambda machine: machine.key)


def _closed(pool: NodePool, now: float) -> str:
    if is_open(pool, now=now):
        return ""
    windows = ", ".join(window.schedule for window in pool.hours)
    return f"it is outside its hours, which begin at {windows} (UTC)"
