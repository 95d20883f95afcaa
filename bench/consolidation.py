"""Consolidation after a scale-in: savings, time and number of steps of Global and of Karpenter's algorithm.

Run ``python -m bench.consolidation``. The planner builds each cluster, every deployment loses a part of its pods, and
the cluster is consolidated until no command is found, with a budget in percent of its nodes. Global is the real method
with the real planner. Karpenter's algorithm runs on arrays (``karpenter_steps``), since its thousands of simulations
would take hours. A step is one command. Parity: the steps and moved pods after which Global has saved as much as
Karpenter saves in the end.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from bench.inputs.clusters import NOW, SHAPES, Shape, cluster, running
from bench.inputs.karpenter_steps import Step, cluster_of
from bench.report import Row, progress, save, show
from shared.disruption.budgets import allowed_now
from shared.disruption.candidates import offering_prices, survey
from shared.disruption.global_consolidation import plan
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.global_consolidation.picture import encode_cluster
from shared.disruption.global_consolidation.proof import buying
from shared.disruption.methods import emptiness
from shared.disruption.records import Command, World
from shared.disruption.simulation import simulate
from shared.domain.instance_types.types import Catalogue
from shared.domain.pools.nodepools import Budget
from shared.domain.snapshot import Snapshot
from shared.runtime.ram import settle

SIZES = (100, 500, 1000, 2000)
QUICK_SIZES = (100,)
STEP_SECONDS = 60.0
"""Simulated time between two commands."""
MOST_STEPS = 60
MOST_KARPENTER_SECONDS = 300.0


class Outcome(NamedTuple):
    """The consolidation of one cluster, until no command was found or a limit was reached."""

    steps: list[Step]
    cpu: list[float]
    """Seconds per decision; the last decision may have no step."""
    wall: list[float]
    finished: bool


def world_of(snapshot: Snapshot, now: float) -> World:
    """The input of a disruption pass, without running commands."""
    prices = offering_prices(snapshot.catalogue)
    found = survey(snapshot, prices, nominated=set(), busy=set(), now=now)
    nodes = {node.name: node for node in snapshot.nodes}
    allowed = allowed_now(snapshot.pools, snapshot.machines, nodes, frozenset(), now=now)
    return World(snapshot, found.candidates, allowed, now)


def with_budget(snapshot: Snapshot, percent: int) -> Snapshot:
    """The snapshot with a budget of so many percent of the nodes in every pool."""
    budgets = (Budget(f"{percent}%"),)
    return replace(snapshot, pools=tuple(replace(p, budgets=budgets) for p in snapshot.pools))


def consolidate_globally(snapshot: Snapshot, churn: Churn) -> Outcome:
    """Consolidates with the real method. Commands are carried out as planned."""
    steps: list[Step] = []
    cpu, wall = [], []
    now = NOW
    while len(steps) < MOST_STEPS:
        world = world_of(snapshot, now)
        settle()
        start = time.process_time(), time.perf_counter()
        proposal = emptiness.propose(world)
        if not proposal.commands:
            proposal = plan.propose(world, churn)
        cpu.append(time.process_time() - start[0])
        wall.append(time.perf_counter() - start[1])
        if not proposal.commands:
            return Outcome(steps, cpu, wall, True)
        (command,) = proposal.commands
        now += STEP_SECONDS
        snapshot = after_command(world, command, now)
        steps.append(
            Step(command.method, len(command.candidates), command.moved_pods, cost_of(snapshot))
        )
    return Outcome(steps, cpu, wall, False)


def after_command(world: World, command: Command, now: float) -> Snapshot:
    """The cluster after a command: pods are where the planner places them, replacements exist."""
    planner = buying(world) if command.method == plan.METHOD else world
    outcome = simulate(planner, command.candidates, consolidating=True)
    snapshot = world.snapshot
    kinds = {kind.name: kind for kind in snapshot.catalogue.types}
    place = {uid: node for node, uids in outcome.plan.existing.items() for uid in uids}
    bought = []
    for i, planned in enumerate(command.replacements):
        name = f"node-new-{now:.0f}-{i:03d}"
        bought.append(running(planned, name, kinds, now))
        place |= dict.fromkeys(planned.pods, name)
    gone = {c.machine.uid for c in command.candidates}
    away = {c.node.name for c in command.candidates}
    return replace(
        snapshot,
        generation=snapshot.generation + 1,
        pods=tuple(
            replace(pod, node_name=place[pod.uid]) if pod.node_name in away else pod
            for pod in snapshot.pods
        ),
        nodes=(*(n for n in snapshot.nodes if n.name not in away), *(node for _, node in bought)),
        machines=(*(m for m in snapshot.machines if m.uid not in gone), *(m for m, _ in bought)),
    )


def cost_of(snapshot: Snapshot) -> int:
    """Micro-USD per hour of all machines."""
    prices = offering_prices(snapshot.catalogue)
    return sum(prices[m.instance_type, m.zone, m.capacity_type] for m in snapshot.machines)


def consolidate_as_karpenter(
    snapshot: Snapshot, percent: int, most_seconds: float
) -> tuple[Outcome, int]:
    """(the reference's outcome, its number of simulations)."""
    world = world_of(snapshot, NOW)
    state = cluster_of(encode_cluster(world, world.candidates, snapshot), snapshot, percent)
    steps: list[Step] = []
    cpu, wall = [], []
    begun = time.process_time()
    while time.process_time() - begun < most_seconds:
        start = time.process_time(), time.perf_counter()
        step = state.step()
        cpu.append(time.process_time() - start[0])
        wall.append(time.perf_counter() - start[1])
        if step is None:
            return Outcome(steps, cpu, wall, True), state.simulations
        steps.append(step)
    return Outcome(steps, cpu, wall, False), state.simulations


def measure(
    cases: Sequence[tuple[Shape, int, int]], aws: Catalogue, churn: Churn, most_seconds: float
) -> Iterator[list[Row]]:
    """Two rows per cluster, Karpenter's and Global's, as soon as both are measured."""
    for shape, size, percent in progress(cases, "consolidation"):
        snapshot = with_budget(cluster(shape, size, aws), percent)
        before = cost_of(snapshot)
        reference, simulations = consolidate_as_karpenter(snapshot, percent, most_seconds)
        ours = consolidate_globally(snapshot, churn)
        about: Row = {
            "cluster": shape.name,
            "budget %": percent,
            "nodes": len(snapshot.nodes),
            "pods": len(snapshot.pods),
        }
        yield [
            about | _row("Karpenter", reference, before) | _parity(reference, None, simulations),
            about | _row("Global", ours, before) | _parity(ours, reference, None),
        ]


def _row(method: str, outcome: Outcome, before: int) -> Row:
    steps = outcome.steps
    last = steps[-1].cost_micro_usd_per_hour if steps else before
    methods = [step.method for step in steps] + [""]
    first = next(i for i, method in enumerate(methods) if method != emptiness.METHOD)
    return {
        "method": method if outcome.finished else f"{method} (cut)",
        "steps": len(steps),
        "saved %": round(100 * (1 - last / before), 2),
        "moved": sum(step.moved_pods for step in steps),
        "first cpu s": round(outcome.cpu[first], 2),
        "first wall s": round(outcome.wall[first], 2),
        "median cpu s": round(statistics.median(outcome.cpu), 2),
        "all cpu s": round(sum(outcome.cpu), 1),
    }


def _parity(outcome: Outcome, reference: Outcome | None, simulations: int | None) -> Row:
    """Steps and moved pods until the reference's final cost is reached; None when it is not."""
    never: Row = {"parity steps": None, "parity moved": None, "simulations": simulations}
    if reference is None or not reference.steps:
        return never
    moved = 0
    for number, step in enumerate(outcome.steps, 1):
        moved += step.moved_pods
        if step.cost_micro_usd_per_hour <= reference.steps[-1].cost_micro_usd_per_hour:
            return never | {"parity steps": number, "parity moved": moved}
    return never


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 nodes only")
    parser.add_argument("--nodes", type=int, nargs="+", help="approximate, before the scale-in")
    parser.add_argument("--shapes", type=int, nargs="+", help="numbers of shapes, from 1")
    parser.add_argument("--budgets", type=int, nargs="+", default=[10], help="percent")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    parser.add_argument("--reference-seconds", type=float, default=MOST_KARPENTER_SECONDS,
                        help="time limit of Karpenter's reference")  # fmt: skip
    return parser.parse_args()


def main() -> None:
    """Measures and prints one table."""
    from tests.support.planning.builders import real_catalogue

    chosen = _options()
    sizes = chosen.nodes or (QUICK_SIZES if chosen.quick else SIZES)
    shapes = [SHAPES[i - 1] for i in chosen.shapes] if chosen.shapes else SHAPES
    cases = [(shape, size, b) for size in sizes for shape in shapes for b in chosen.budgets]
    aws = real_catalogue("us-east-1")
    rows: list[Row] = []
    for found in measure(cases, aws, Churn(), chosen.reference_seconds):
        rows += found
        save(chosen.json, {"consolidation": rows})
    show("Consolidation after a scale-in", rows)


if __name__ == "__main__":
    main()
