"""Machines that are no longer what their pool and class say: replaced one by one (DRF-06, DRF-08).

Whether a machine drifted is its condition ``Drifted``, which the launcher writes; here only the order and the moves.
"""

from __future__ import annotations

from msgspec.structs import replace

from shared.disruption.methods.replacing import replace_one
from shared.disruption.records import Candidate, Command, Proposal, Rejection, World
from shared.domain.machines.machine import DRIFTED as CONDITION
from shared.domain.pools.nodepools import DRIFTED

METHOD = "drift"
MOST_SIMULATIONS = 20


def propose(world: World) -> Proposal:
    """One command for the machine that drifted first, empty ones before the others; static pools have their own way."""
    rejections: list[Rejection] = []
    simulations = 0
    for candidate in drifted(world, static=False):
        if world.left(candidate.machine.pool_key, DRIFTED) <= 0:
            continue
        if simulations == MOST_SIMULATIONS:
            break
        simulations += 1
        answer = replace_one(world, eventual(candidate), METHOD, DRIFTED)
        if isinstance(answer, Command):
            return Proposal((answer,), tuple(rejections))
        rejections.append(answer)
    return Proposal((), tuple(rejections))


def drifted(world: World, *, static: bool) -> list[Candidate]:
    """Candidates that drifted, of static pools or of the others, in order (DRF-06); v1alpha5 needs a gate (DRF-08)."""
    found = [
        c
        for c in world.candidates
        if c.machine.has(CONDITION)
        and c.pool.is_static is static
        and (world.gates.drift or not c.pool.api.drift_needs_gate)
    ]
    return sorted(found, key=lambda c: (not c.empty, c.machine.conditions[CONDITION].since, c.name))


def eventual(candidate: Candidate) -> Candidate:
    """DIS-13: a machine whose drain has an end is not held by its pods."""
    if candidate.machine.termination_grace_seconds is None:
        return candidate
    return replace(candidate, blocker="", blocking_pod="")
