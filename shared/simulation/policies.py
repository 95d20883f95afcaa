"""The same inputs planned by each packing policy. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from shared.domain.pools.nodepools import PackingPolicy
from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve

NOBODY: frozenset[str] = frozenset()


def plans_by_policy(
    snapshot: Snapshot,
    settings: SolverSettings,
    *,
    now: float = 0.0,
    moving: frozenset[str] = NOBODY,
) -> dict[str, Plan]:
    """Name of the policy -> its plan, as if no pool had a policy of its own."""
    return {
        policy.value: plan_by(policy, snapshot, settings, now=now, moving=moving)
        for policy in PackingPolicy
    }


def plan_by(
    policy: PackingPolicy,
    snapshot: Snapshot,
    settings: SolverSettings,
    *,
    now: float = 0.0,
    moving: frozenset[str] = NOBODY,
    bounded: bool = True,
) -> Plan:
    """The plan by one policy, as if no pool had a policy of its own. ``bounded``: as for ``solve``."""
    snapshot = replace(snapshot, pools=tuple(replace(pool, packing="") for pool in snapshot.pools))
    settings = replace(settings, packing_policy=policy)
    return solve(snapshot, now=now, settings=settings, reschedule=moving, bounded=bounded)
