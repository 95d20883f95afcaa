"""Drift: machines that no longer match their pool and node class are replaced one by one (DRF-06, DRF-08).

The launcher detects drift and sets the condition ``Drifted``. This module only decides the order and the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from shared.disruption.methods.replacing import replace_first, unblocked_by_grace_period
from shared.disruption.records import Candidate, Proposal, Rejection, World
from shared.domain.machines.machine import DRIFTED as CONDITION
from shared.domain.pools.nodepools import DRIFTED

METHOD = "drift"
HELD_BACK = (
    "a replacement of its pool failed; drifted nodes of the pool are tried again in some minutes"
)


def propose(world: World, only: Set[str] | None = None) -> Proposal:
    """One command for the first drifted machine whose pods fit elsewhere. Static pools: see ``static_drift``. ``only``:
    of these UIDs."""
    found = map(unblocked_by_grace_period, drifted(world, static=False, only=only))
    proposal = replace_first(world, found, METHOD, DRIFTED)
    return Proposal(proposal.commands, (*held_back(world, static=False), *proposal.rejections))


def held_back(world: World, *, static: bool) -> list[Rejection]:
    """Why drifted machines wait whose pool is left alone (DRF-09)."""
    return [
        Rejection(c.machine.key, c.node.name, "", HELD_BACK, DRIFTED)
        for c in _all(world, static=static)
        if c.pool.key in world.drift_held
    ]


def _all(world: World, *, static: bool) -> Iterator[Candidate]:
    for c in world.candidates:
        counts = world.gates.drift or not c.pool.api.drift_needs_gate
        if c.machine.has(CONDITION) and c.pool.is_static is static and counts:
            yield c


def drifted(world: World, *, static: bool, only: Set[str] | None = None) -> list[Candidate]:
    """Drifted candidates of static or other pools: empty ones first, then by time of drift (DRF-06).

    v1alpha5 machines count only with the feature gate (DRF-08). Pools whose replacements failed wait (DRF-09).
    """
    found = [
        c
        for c in _all(world, static=static)
        if c.pool.key not in world.drift_held and (only is None or c.machine.uid in only)
    ]
    return sorted(found, key=lambda c: (not c.empty, c.machine.conditions[CONDITION].since, c.name))
