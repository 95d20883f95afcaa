"""The exact half of global consolidation: the planner decides whether a set of machines can go, and its replacements.

Replacements are planned by LowestCost, or by Balanced where that is the default, unless their pool has another policy.
Their types are restricted so that, with any choice of EC2, the command saves what its moves cost: each replacement gets
a share of the allowed cost as a limit.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.methods.consolidation import is_balanced
from shared.disruption.records import Candidate, Command, World, effect
from shared.disruption.replacement_price import (
    SPOT_BY_SPOT,
    SPOT_DISABLED,
    cheaper,
    total_price,
    without_types_from,
)
from shared.disruption.simulation import Simulation, simulate
from shared.domain import labels as keys
from shared.domain.pools.nodepools import LOWEST_COST, UNDERUTILIZED, PackingPolicy
from shared.solver.plan import PlannedMachine

METHOD = "global"


class ProofRefusal(msgspec.Struct, frozen=True):
    """Why a set cannot be removed, and which candidates cause that; empty: not known."""

    text: str
    culprits: frozenset[str] = frozenset()
    """UIDs of machines."""
    too_dear: bool = False
    """True when the pods fit, but the command saves too little."""


def buying(world: World) -> World:
    """The world with the packing policy LowestCost, unless it has Balanced, which searches too."""
    if world.solver.packing_policy == PackingPolicy.BALANCED:
        return world
    return replace(world, solver=replace(world.solver, packing_policy=LOWEST_COST))


def prove(world: World, candidates: tuple[Candidate, ...], churn: Churn) -> Command | ProofRefusal:
    """The command that removes these machines, or why it is refused."""
    outcome = simulate(buying(world), candidates, consolidating=True)
    if outcome.problem:
        return ProofRefusal(outcome.problem, uids_of(without_place(outcome, candidates)))
    moved = sum(len(candidate.pods) for candidate in candidates)
    bought = _affordable(world, outcome.machines, candidates, churn.required_saving(moved))
    if isinstance(bought, ProofRefusal):
        return bought
    if refusal := world.keeping.refusal(candidates, bought):
        spare, _ = world.keeping.spare(candidates)
        return ProofRefusal(refusal, uids_of(candidates) - uids_of(spare))
    saving = (total_price(candidates) or 0) - price_of(bought)
    text = command_text(len(candidates), moved, bought, saving)
    command = Command(
        METHOD, UNDERUTILIZED, candidates, bought, outcome.targets, saving, moved, text
    )
    if is_balanced(world, command):
        return command
    return ProofRefusal("saves too little for what it disrupts (Balanced)", too_dear=True)


def price_of(machines: Iterable[PlannedMachine]) -> int:
    """Micro-USD per hour of these machines, each at its cheapest offering."""
    return sum(machine.offering.price_micro_usd_per_hour for machine in machines)


def why_not_replaced(world: World, candidate: Candidate) -> str:
    """Why a spot machine may not be replaced (CON-08, CON-14); empty: it may.

    Only spot is cheaper than spot, so without spot-to-spot consolidation no replacement can save anything.
    """
    if candidate.machine.capacity_type != keys.SPOT:
        return ""
    if not candidate.pool.api.replaces_spot_by_spot:
        return SPOT_BY_SPOT
    return "" if world.gates.spot_to_spot_consolidation else SPOT_DISABLED


def _affordable(
    world: World,
    machines: tuple[PlannedMachine, ...],
    candidates: tuple[Candidate, ...],
    required_saving: int,
) -> tuple[PlannedMachine, ...] | ProofRefusal:
    """The machines with only those types that keep the total at least ``required_saving`` below the old price.

    CON-05..08 for any number of machines.
    """
    old = total_price(candidates)
    if old is None:
        return ProofRefusal("the price of a node is not known")
    planned = price_of(machines)
    spare = old - planned - required_saving
    if spare <= 0:
        text = f"saves ${(old - planned) / 1e6:.4f} an hour and must save more than ${required_saving / 1e6:.4f}"
        return ProofRefusal(text, uids_of(owners_of(machines, candidates)), too_dear=True)
    found = []
    for machine in machines:
        price = machine.offering.price_micro_usd_per_hour
        share = price + (spare * price // planned if planned else spare // len(machines))
        owners = owners_of((machine,), candidates)
        kept = cheaper(world, machine, owners, budget=share)
        if not isinstance(kept, str) and len(machines) == 1 and len(candidates) > 1:
            kept = without_types_from(kept, candidates, world)
        if isinstance(kept, str):
            return ProofRefusal(kept, uids_of(owners))
        found.append(kept)
    return tuple(found)


def command_text(nodes: int, pods: int, bought: tuple[PlannedMachine, ...], saving: int) -> str:
    """A command in one line, for users. ``saving``: micro-USD per hour."""
    kinds = ", ".join(machine.instance_type for machine in bought)
    verb = (
        f"replace {nodes} node(s) by {len(bought)} ({kinds})"
        if bought
        else f"delete {nodes} node(s)"
    )
    return f"{verb}, {effect(pods, saving)}"


def without_place(outcome: Simulation, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The candidates whose pods are unschedulable; without any, those whose pods go to an uninitialised node."""
    moved = {pod.uid for candidate in candidates for pod in candidate.pods}
    pods = moved & outcome.plan.unschedulable.keys() or moved & set(outcome.on_unready)
    return _of(pods, candidates)


def owners_of(
    machines: Iterable[PlannedMachine], candidates: tuple[Candidate, ...]
) -> tuple[Candidate, ...]:
    """The candidates whose pods are planned on these machines."""
    return _of({uid for machine in machines for uid in machine.pods}, candidates)


def _of(pods: set[str], candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    return tuple(c for c in candidates if any(pod.uid in pods for pod in c.pods))


def uids_of(candidates: Iterable[Candidate]) -> frozenset[str]:
    """UIDs of the candidates' machines."""
    return frozenset(candidate.machine.uid for candidate in candidates)
