"""The exact half of global consolidation: the planner says whether a set of machines can go, and what is bought for it.

Replacements are planned by LowestCost (where a pool does not say otherwise) and may be several. Together they may
become nothing that does not save what the moves cost: each gets a share of what may be spent as the limit of its types.
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
from shared.domain.pools.nodepools import UNDERUTILIZED
from shared.solver.lowest_cost.packing import LOWEST_COST
from shared.solver.plan import PlannedMachine

METHOD = "global"


class Refusal(msgspec.Struct, frozen=True):
    """Why a set cannot go, and which of its candidates are in the way; none: all of them together."""

    text: str
    culprits: frozenset[str] = frozenset()
    """UIDs of machines."""
    too_dear: bool = False
    """The pods have a place; it costs too much."""


def buying(world: World) -> World:
    """The same world for a planner that looks for the cheapest machines."""
    return replace(world, solver=replace(world.solver, packing_policy=LOWEST_COST))


def prove(world: World, candidates: tuple[Candidate, ...], churn: Churn) -> Command | Refusal:
    """The command that takes these away."""
    outcome = simulate(buying(world), candidates, consolidating=True)
    if outcome.problem:
        return Refusal(outcome.problem, uids_of(without_place(outcome, candidates)))
    moved = sum(len(candidate.pods) for candidate in candidates)
    bought = _affordable(world, outcome.machines, candidates, churn.due(moved))
    if isinstance(bought, Refusal):
        return bought
    saving = (total_price(candidates) or 0) - price_of(bought)
    text = told(len(candidates), moved, bought, saving)
    command = Command(
        METHOD, UNDERUTILIZED, candidates, bought, outcome.targets, saving, moved, text
    )
    if is_balanced(world, command):
        return command
    return Refusal("saves too little for what it disrupts (Balanced)", too_dear=True)


def price_of(machines: Iterable[PlannedMachine]) -> int:
    """Micro-USD per hour, each at its cheapest offering."""
    return sum(machine.offering.price_micro_usd_per_hour for machine in machines)


def why_not_replaced(world: World, candidate: Candidate) -> str:
    """CON-08, CON-14: nothing on demand costs less than what runs on spot, so to ask is in vain; empty: it may."""
    if candidate.machine.capacity_type != keys.SPOT:
        return ""
    if not candidate.pool.api.replaces_spot_by_spot:
        return SPOT_BY_SPOT
    return "" if world.gates.spot_to_spot_consolidation else SPOT_DISABLED


def _affordable(
    world: World, machines: tuple[PlannedMachine, ...], candidates: tuple[Candidate, ...], due: int
) -> tuple[PlannedMachine, ...] | Refusal:
    """CON-05..08 for any number of machines: whatever they become, they cost more than ``due`` less than now."""
    old = total_price(candidates)
    if old is None:
        return Refusal("the price of a node is not known")
    planned = price_of(machines)
    spare = old - planned - due
    if spare <= 0:
        text = (
            f"saves ${(old - planned) / 1e6:.4f} an hour and must save more than ${due / 1e6:.4f}"
        )
        return Refusal(text, uids_of(owners_of(machines, candidates)), too_dear=True)
    found = []
    for machine in machines:
        price = machine.offering.price_micro_usd_per_hour
        share = price + (spare * price // planned if planned else spare // len(machines))
        owners = owners_of((machine,), candidates)
        kept = cheaper(world, machine, owners, budget=share)
        if not isinstance(kept, str) and len(machines) == 1 and len(candidates) > 1:
            kept = without_types_from(kept, candidates, world)
        if isinstance(kept, str):
            return Refusal(kept, uids_of(owners))
        found.append(kept)
    return tuple(found)


def told(nodes: int, pods: int, bought: tuple[PlannedMachine, ...], saving: int) -> str:
    """The command in one line, for people. ``saving``: micro-USD per hour."""
    kinds = ", ".join(machine.instance_type for machine in bought)
    verb = (
        f"replace {nodes} node(s) by {len(bought)} ({kinds})"
        if bought
        else f"delete {nodes} node(s)"
    )
    return f"{verb}, {effect(pods, saving)}"


def without_place(outcome: Simulation, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Those whose pods stay without a place, or would go to a node that is not ready."""
    moved = {pod.uid for candidate in candidates for pod in candidate.pods}
    homeless = moved & outcome.plan.unschedulable.keys()
    if not homeless:
        homeless = moved & set(outcome.on_unready)
    return _of(homeless, candidates)


def owners_of(
    machines: Iterable[PlannedMachine], candidates: tuple[Candidate, ...]
) -> tuple[Candidate, ...]:
    """Those whose pods are to go to these machines."""
    return _of({uid for machine in machines for uid in machine.pods}, candidates)


def _of(pods: set[str], candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    return tuple(c for c in candidates if any(pod.uid in pods for pod in c.pods))


def uids_of(candidates: Iterable[Candidate]) -> frozenset[str]:
    """Of their machines."""
    return frozenset(candidate.machine.uid for candidate in candidates)
