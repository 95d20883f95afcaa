"""Validates a global command after its delay (CON-11).

The command is not planned again: on a busy cluster a later plan never has exactly the same machines. Instead this
checks that the command's pods fit on the remaining nodes and on its replacements, that no other machine is needed, and
that the command still saves more than its moves cost.

Machines for which this is no longer true are left out, and so are replacements that would get no pods, as long as the
rest pays: among a hundred nodes there is always one that just got a pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.global_consolidation.proof import (
    command_text,
    owners_of,
    uids_of,
    without_place,
)
from shared.disruption.methods.consolidation import eligible, is_balanced
from shared.disruption.records import (
    BUDGET,
    CHURN,
    SCHEDULING,
    Candidate,
    Command,
    Verdict,
    World,
    within_budgets,
)
from shared.disruption.replacement_price import price_now, total_price
from shared.disruption.simulation import Simulation, simulate
from shared.domain.machines.machine import Machine
from shared.domain.pools.usage import NODES, replacing, usage
from shared.domain.resources import add, exceeded, subtract, sum_of
from shared.domain.snapshot import Snapshot
from shared.solver import reasons
from shared.solver.plan import PlannedMachine
from shared.solver.pod_classes import effective_requests

MOST_TRIES = 3
"""Simulations per validation; each leaves out the machines that made the one before fail."""


def revalidate(world: World, command: Command, churn: Churn) -> Verdict:
    """The command as it may be carried out now."""
    known = {c.machine.uid: c for c in eligible(world)[0]}
    fresh = [known[c.machine.uid] for c in command.candidates if c.machine.uid in known]
    kept = within_budgets(fresh, world, command.reason)
    if not kept and fresh:
        return Verdict(None, BUDGET, "the budgets allow none by now")
    if not kept:
        return Verdict(None, CHURN, "no node is a candidate any more")
    if problem := _unbuyable(world, command):
        return Verdict(None, SCHEDULING, problem)
    answer = _placed(world, command.replacements, kept)
    for _ in range(MOST_TRIES - 1):
        if answer.problem and answer.rest:
            kept = answer.rest
            answer = _placed(world, command.replacements, kept)
    if answer.problem:
        return Verdict(None, SCHEDULING, answer.problem)
    now = replace(command, candidates=kept, replacements=answer.bought, targets=answer.targets)
    return _if_it_pays(world, now, churn)


def _unbuyable(world: World, command: Command) -> str:
    """Why a replacement cannot be created: its pool no longer exists, or has reached its limits (SCH-100)."""
    pools = {pool.key: pool for pool in world.snapshot.pools}
    kinds = {kind.name: kind.capacity for kind in world.snapshot.catalogue.types}
    going = uids_of(command.candidates)
    for key in sorted({planned.pool_key for planned in command.replacements}):
        if key not in pools:
            return f"{key} is gone"
        mine = (m for m in world.snapshot.machines if m.pool_key == key and m.uid not in going)
        sizes = ((m, m.capacity or m.requests) for m in mine)
        used = usage(sizes, replacing(world.solver.counting))
        bought = (p.instance_type for p in command.replacements if p.pool_key == key)
        used = add(used, *({**kinds.get(name, {}), NODES: 1} for name in bought))
        if exceeded(used, pools[key].limits):
            return reasons.limits_exceeded(pools[key])
    return ""


class Placed(NamedTuple):
    """Where the command's pods fit now. ``problem``: empty when all fit."""

    problem: str
    rest: tuple[Candidate, ...]
    """The candidates that do not cause the problem."""
    bought: tuple[PlannedMachine, ...]
    """The replacements that get pods."""
    targets: tuple[str, ...]


def _placed(
    world: World, bought: tuple[PlannedMachine, ...], kept: tuple[Candidate, ...]
) -> Placed:
    """Simulates the command with its replacements as existing machines.

    The planner may fill the replacements less tightly than the original plan. So when not all pods fit, each pod that
    was planned on a replacement is pinned there, and only the others are planned.
    """
    moved = {pod.uid for candidate in kept for pod in candidate.pods}
    coming = _in_flight(bought, world.snapshot)
    outcome = simulate(world, kept, consolidating=True, coming=coming)
    there: set[str] = set()
    if _why_not(outcome) and coming:
        world, pinned, coming = _as_planned(world, bought, kept)
        outcome = simulate(world, pinned, consolidating=True, coming=coming)
        there = {pod.node_name for pod in world.snapshot.pods if pod.uid in moved}
    used = there | {name for name, uids in outcome.plan.existing.items() if moved & set(uids)}
    culprits = uids_of((*without_place(outcome, kept), *owners_of(outcome.machines, kept)))
    names = [machine.name for machine in coming]
    return Placed(
        _why_not(outcome),
        tuple(c for c in kept if c.machine.uid not in culprits),
        tuple(one for name, one in zip(names, bought, strict=True) if name in used),
        tuple(name for name in outcome.targets if name not in names),
    )


def _as_planned(
    world: World, bought: tuple[PlannedMachine, ...], kept: tuple[Candidate, ...]
) -> tuple[World, tuple[Candidate, ...], tuple[Machine, ...]]:
    """The world, candidates and replacements with the pods on their replacements already.

    A replacement's free resources are those of planned pods that no longer exist.
    """
    moving = {pod.uid: pod for candidate in kept for pod in candidate.pods}
    place: dict[str, str] = {}
    coming = []
    for machine, planned in zip(_in_flight(bought, world.snapshot), bought, strict=True):
        there = [moving[uid] for uid in planned.pods if uid in moving]
        place |= {pod.uid: machine.name for pod in there}
        used = sum_of(effective_requests(pod.requests) for pod in there)
        coming.append(replace(machine, allocatable=subtract(planned.requests, used)))
    pods = tuple(
        replace(pod, node_name=place[pod.uid]) if pod.uid in place else pod
        for pod in world.snapshot.pods
    )
    pinned = tuple(
        replace(c, pods=tuple(pod for pod in c.pods if pod.uid not in place)) for c in kept
    )
    return replace(world, snapshot=replace(world.snapshot, pods=pods)), pinned, tuple(coming)


def _in_flight(planned: Iterable[PlannedMachine], snapshot: Snapshot) -> tuple[Machine, ...]:
    """Planned machines as machines without a node.

    Their names cannot be node names: a planned machine may have the same name as the machine that it replaces.
    """
    pools = {pool.key: pool for pool in snapshot.pools}
    return tuple(
        Machine(
            uid=f"/coming/{number}", name=f"/coming/{number}", pool=one.pool,
            generation_api=pools[one.pool_key].generation_api, labels=one.labels,
            requirements=one.requirements, requests=one.requests, taints=one.taints,
            startup_taints=one.startup_taints, kubelet=pools[one.pool_key].kubelet,
            node_class=one.node_class,
        )
        for number, one in enumerate(planned)
    )  # fmt: skip


def _why_not(outcome: Simulation) -> str:
    """The problem of a simulation; empty when every pod fits and no further machine is needed."""
    if outcome.machines and not outcome.problem:
        return f"{len(outcome.machines)} more new machine(s) are needed by now"
    return outcome.problem


def _if_it_pays(world: World, command: Command, churn: Churn) -> Verdict:
    """The verdict at current prices, for the current pods."""
    old = total_price(command.candidates)
    prices = [price_now(planned, world) for planned in command.replacements]
    new = [price for price in prices if price is not None]
    if len(new) < len(prices):
        return Verdict(None, SCHEDULING, "a machine that it buys is not on offer any more")
    moved = sum(len(candidate.pods) for candidate in command.candidates)
    saving = (old or 0) - sum(new)
    if saving <= churn.required_saving(moved):
        return Verdict(None, CHURN, f"saves ${saving / 1e6:.4f} an hour by now, too little")
    text = command_text(len(command.candidates), moved, command.replacements, saving)
    now = replace(command, saving_micro_usd_per_hour=saving, moved_pods=moved, text=text)
    if refusal := world.keeping.refusal(now.candidates, now.replacements):
        return Verdict(None, CHURN, refusal)
    if not is_balanced(world, now):
        return Verdict(None, CHURN, "saves too little for what it disrupts (Balanced)")
    return Verdict(now)
