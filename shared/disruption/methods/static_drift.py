"""Drift of static pools: each drifted machine is replaced by one machine, whatever its pods need (DRF-07)."""

from __future__ import annotations

from collections.abc import Set

from msgspec.structs import replace

from shared.disruption.methods.drift import drifted, held_back
from shared.disruption.methods.replacing import unblocked_by_grace_period
from shared.disruption.records import BLOCKED, Command, Proposal, Rejection, World, effect
from shared.domain.pools.nodepools import DRIFTED, NodePool
from shared.solver.output import machine_name
from shared.solver.pools.static import static_machine

METHOD = "static-drift"
NODES = "nodes"


def propose(world: World, only: Set[str] | None = None) -> Proposal:
    """One command for the machine of a static pool that drifted first. ``only``: of these UIDs."""
    if not world.gates.static_capacity:
        return Proposal()
    rejections: list[Rejection] = held_back(world, static=True)
    for found in drifted(world, static=True, only=only):
        candidate = unblocked_by_grace_period(found)
        pool = candidate.pool
        if world.left(pool.key, DRIFTED) <= 0 or _has_surplus(world, pool):
            continue
        if candidate.blocker:
            text, pod = candidate.blocker, candidate.blocking_pod
        elif not _has_room(world, pool.key, pool.limits.get(NODES)):
            text, pod = "the pool's limit of nodes leaves no room for a replacement", ""
        else:
            planned = static_machine(world.snapshot, pool, world.solver)
            if not isinstance(planned, str):
                name = machine_name(pool.name, candidate.machine.uid, 0)
                new = planned.offering.price_micro_usd_per_hour
                saving = (candidate.price_micro_usd_per_hour or new) - new
                moved = len(candidate.pods)
                line = f"replace drifted node {candidate.node.name} of a static pool"
                command = Command(
                    METHOD, DRIFTED, (candidate,), (replace(planned, name=name),),
                    saving_micro_usd_per_hour=saving, moved_pods=moved,
                    text=f"{line}, {effect(moved, saving)}",
                )  # fmt: skip
                return Proposal((command,), tuple(rejections))
            text, pod = planned, ""
        rejections.append(candidate.refused(text, event=BLOCKED, reason=DRIFTED, pod=pod))
    return Proposal((), tuple(rejections))


def _has_surplus(world: World, pool: NodePool) -> bool:
    """Does the pool have more machines than replicas? Then static capacity deletes one without replacing it."""
    return sum(c.pool.key == pool.key for c in world.candidates) > (pool.replicas or 0)


def _has_room(world: World, pool_key: str, limit: int | None) -> bool:
    used = sum(machine.pool_key == pool_key for machine in world.snapshot.machines)
    return limit is None or used < limit
