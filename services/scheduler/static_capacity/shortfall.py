"""What a pool keeps, what it has of that, and why it cannot get the rest: for ``explain`` about a pool. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from services.scheduler.static_capacity.adjustments import adjustments
from shared.domain.feature_gates import FeatureGates
from shared.domain.pools.kept_capacity import (
    Holding,
    holdings,
    keeps_capacity,
    lacking,
    required_headroom,
    required_minimum,
)
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.windows import KeptCapacity
from shared.domain.resources import format_amount, subtract
from shared.domain.snapshot import Snapshot
from shared.solver.pools.kept import fill
from shared.solver.pools.static import static_machine
from shared.solver.solve import SolverSettings


def kept(pool: NodePool, snapshot: Snapshot, *, now: float) -> dict[str, Any]:
    """Minimum and headroom: what is wanted and had now, and when entries begin; empty for a pool without both."""
    if not keeps_capacity(pool):
        return {}
    holding = _holding(pool, snapshot)
    free = subtract(holding.allocatable, holding.requested)
    wanted = required_headroom(pool, holding, now=now)
    return {
        "minimum": _amounts(required_minimum(pool, now=now), holding.capacity),
        "headroom": _amounts(wanted, free),
        "minimumFrom": _schedules(pool.minimum),
        "headroomFrom": _schedules(pool.headroom),
    }


def shortfall(
    pool: NodePool,
    snapshot: Snapshot,
    settings: SolverSettings,
    gates: FeatureGates,
    *,
    now: float,
) -> str:
    """Why the pool cannot get all that it is to have without pods; empty: it can, or has it."""
    if pool.is_static:
        return _of_static(pool, snapshot, settings, now) if gates.static_capacity else ""
    short = lacking(pool, _holding(pool, snapshot), now=now)
    why = fill(snapshot, pool, short, settings).why if short else ""
    return f"it is short of {short} of its minimum and headroom: {why}" if why else ""


def _of_static(pool: NodePool, snapshot: Snapshot, settings: SolverSettings, now: float) -> str:
    found = (
        one for one in adjustments(snapshot, busy_uids=frozenset(), now=now) if one.pool is pool
    )
    missing = sum(one.missing for one in found)
    planned = static_machine(snapshot, pool, settings) if missing else None
    if not isinstance(planned, str):
        return ""
    return f"it is short of {missing} of its {pool.replicas} replicas: {planned}"


def _holding(pool: NodePool, snapshot: Snapshot) -> Holding:
    return holdings(snapshot, {pool.key}, frozenset())[pool.key]


def _amounts(wanted: Mapping[str, int], had: Mapping[str, int]) -> dict[str, dict[str, str]]:
    return {
        name: {
            "wanted": format_amount(name, wanted[name]),
            "has": format_amount(name, max(0, had.get(name, 0))),
        }
        for name in sorted(wanted)
    }


def _schedules(entries: Iterable[KeptCapacity]) -> list[str]:
    return [one.schedule for one in entries if one.schedule]
