"""The machines that bring a pool back to its minimum and headroom: what the planner would buy for that capacity.

Planned are pods that request what is lacking in equal pieces, small enough for any machine. What may go wrong: no
instance type suits, or the pool's limits allow no more; then as many machines as are allowed, and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from shared.domain.expressions import Toleration
from shared.domain.pools.kept_capacity import Lacking, Types
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import NODES, usage
from shared.domain.resources import CPU, MEMORY, PODS, add, subtract
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver import reasons
from shared.solver.plan import PlannedMachine
from shared.solver.pools.static import static_machine
from shared.solver.solve import SolverSettings, solve

MOST_PIECES = 400
MOST_MACHINES = 100
"""Machines that one call plans; the next one goes on."""
_PIECE = {CPU: 500, MEMORY: 2**30}


class Filling(NamedTuple):
    """``machines``: without pods; the caller names them. ``why``: what keeps the pool short; empty: nothing."""

    machines: tuple[PlannedMachine, ...]
    why: str


def fill(snapshot: Snapshot, pool: NodePool, lacking: Lacking, settings: SolverSettings) -> Filling:
    """Machines of this pool that have together what is lacking."""
    mine = ((m, m.capacity or m.requests) for m in snapshot.machines if m.pool_key == pool.key)
    left = subtract(pool.limits, usage(mine, settings.counting))
    limits = {name: max(0, left[name]) for name in pool.limits}
    planned, why = _for_amounts(snapshot, pool, limits, lacking.amounts, settings)
    more = min(lacking.nodes, MOST_MACHINES) - len(planned)
    if more <= 0:
        return Filling(planned, why)
    one = static_machine(snapshot, pool, settings)
    if isinstance(one, str):
        return Filling(planned, one)
    types = {kind.name: kind for kind in snapshot.catalogue.types}
    room = _room(limits, planned, one, types)
    if room < more:
        why = reasons.limits_exceeded(pool)
    return Filling((*planned, *[one] * min(more, room)), why)


def _room(
    limits: Mapping[str, int],
    planned: tuple[PlannedMachine, ...],
    one: PlannedMachine,
    types: Types,
) -> int:
    """How many machines like ``one`` the limits allow beside those that are planned."""
    used = [{**types[m.instance_type].capacity, NODES: 1} for m in planned]
    left = subtract(limits, add(*used))
    each = {**types[one.instance_type].capacity, NODES: 1}
    rooms = [left[name] // each[name] for name in limits if each.get(name)]
    return max(0, min(rooms, default=MOST_MACHINES))


def _for_amounts(
    snapshot: Snapshot,
    pool: NodePool,
    limits: dict[str, int],
    amounts: dict[str, int],
    settings: SolverSettings,
) -> tuple[tuple[PlannedMachine, ...], str]:
    if not amounts:
        return (), ""
    alone = replace(
        snapshot, pods=pieces(amounts), nodes=(), machines=(), claims=(), volumes=(),
        pools=(replace(pool, limits=limits),),
    )  # fmt: skip
    plan = solve(alone, now=0.0, settings=settings)
    why = next(iter(plan.unschedulable.values()), "")
    empty = (replace(one, pods=(), requests={}) for one in plan.machines[:MOST_MACHINES])
    return tuple(empty), why


def pieces(amounts: dict[str, int]) -> tuple[Pod, ...]:
    """Equal pods that request these amounts together, rounded up."""
    count = max((-(-amounts.get(name, 0) // size) for name, size in _PIECE.items()), default=1)
    count = max(1, min(count, MOST_PIECES))
    requests = {name: -(-amount // count) for name, amount in amounts.items()}
    return tuple(
        Pod(
            uid=f"kept-{index}",
            namespace="default",
            name=f"kept-{index}",
            requests={**requests, PODS: 1},
            tolerations=(Toleration("", "Exists"),),
            unschedulable=True,
        )
        for index in range(count)
    )
