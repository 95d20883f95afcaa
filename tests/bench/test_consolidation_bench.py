"""The consolidation benchmark: its reference makes the same decisions as Karpenter's methods."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from bench.consolidation import (
    after_command,
    consolidate_as_karpenter,
    consolidate_globally,
    cost_of,
    with_budget,
    world_of,
)
from bench.inputs.clusters import NOW, SHAPES, cluster
from bench.inputs.karpenter_steps import cluster_of
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.global_consolidation.picture import encode_cluster
from shared.disruption.methods import emptiness, multi_node, single_node
from shared.domain.snapshot import Snapshot
from tests.support.planning.builders import real_catalogue


@cache
def small(shape: int, seed: int = 3) -> Snapshot:
    aws = real_catalogue()
    types = tuple(t for t in aws.types if t.name.startswith(("m5.", "c5.", "r5.", "m6i.")))
    return with_budget(cluster(SHAPES[shape], 16, replace(aws, types=types), seed=seed), 100)


@pytest.mark.parametrize(
    ("shape", "seed"), [(0, 3), (2, 3), pytest.param(3, 4, marks=pytest.mark.nightly)]
)
def test_the_reference_finds_the_first_command_of_karpenters_methods(shape: int, seed: int) -> None:
    """CON-09, CON-10: the same number of nodes and pods, and the same cost afterwards. Later steps may differ, and with
    other seeds the first: the planner lets pods with a rule about zones change theirs, the reference does not."""
    snapshot = small(shape, seed)
    world = world_of(snapshot, NOW)
    state = cluster_of(encode_cluster(world, world.candidates, snapshot), snapshot, 100)
    while (step := state.step()) is not None and step.method == emptiness.METHOD:
        (command,) = emptiness.propose(world).commands
        snapshot = after_command(world, command, NOW + 60.0)
        world = world_of(snapshot, NOW + 60.0)
    assert step is not None
    found = multi_node.propose(world).commands or single_node.propose(world, most=999).commands
    (command,) = found
    snapshot = after_command(world, command, NOW + 120.0)
    seen = (command.method, len(command.candidates), command.moved_pods, cost_of(snapshot))
    assert seen == step


@pytest.mark.slow
def test_an_outcome_tells_the_cost_of_the_cluster_after_each_step() -> None:
    snapshot = small(2)
    outcome = consolidate_globally(snapshot, Churn())
    costs = [cost_of(snapshot), *(step.cost_micro_usd_per_hour for step in outcome.steps)]
    assert outcome.finished
    assert len(costs) > 1
    assert costs == sorted(costs, reverse=True)


def test_the_reference_ends() -> None:
    outcome, simulations = consolidate_as_karpenter(small(0), 100, 60.0)
    assert outcome.finished
    assert simulations >= len(outcome.steps)
