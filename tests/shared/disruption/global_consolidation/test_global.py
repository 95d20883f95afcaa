"""Global consolidation: its commands are possible, allowed and pay, and do many of Karpenter's steps at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.disruption.global_consolidation import plan
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.global_consolidation.proof import buying
from shared.disruption.methods import multi_node, single_node
from shared.disruption.records import CHURN, UNCONSOLIDATABLE, Command, Proposal, World
from shared.disruption.replacement_price import SPOT_DISABLED
from shared.disruption.validation import validate
from shared.domain import labels as keys
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import CONSOLIDATABLE, INITIALIZED, Condition
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import (
    BALANCED,
    WHEN_EMPTY,
    WHEN_UNDERUTILIZED,
    Budget,
    NodePool,
)
from shared.domain.workloads.pods import Pod
from shared.errors import ConfigurationError
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_catalogue,
    make_pool,
    make_snapshot,
    make_term,
    make_types,
)
from tests.support.planning.disruption import (
    DEPLOYMENT,
    NOW,
    Running,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)
from tests.support.stories.moves import faults

ROOT = Path(__file__).parents[4]
FREE = Churn(move_cost_micro_usd=0)
MOST = (Budget("100%"),)
SIZES = (4, 8, 16, 32)


def pool(**changes: Any) -> NodePool:
    fields: dict[str, Any] = {
        "generation_api": V1,
        "consolidation_policy": WHEN_UNDERUTILIZED,
        "consolidate_after_seconds": 0.0,
        "budgets": MOST,
    }
    return make_pool(**{**fields, **changes})


def world(running: list[Running], *pods: Pod, of: NodePool, **changes: Any) -> World:
    return make_world(make_cluster(running, *pods, pools=(of,)), **changes)


def names(proposal: Proposal) -> list[list[str]]:
    return [sorted(c.node.name for c in command.candidates) for command in proposal.commands]


def since(one: Running, seconds: float) -> Running:
    """The machine initialised so many seconds ago."""
    marked = {**one.machine.conditions, INITIALIZED: Condition("True", since=NOW - seconds)}
    return one._replace(machine=replace(one.machine, conditions=marked))


@st.composite
def clusters(draw: st.DrawFn) -> World:
    """One pool, nodes of several sizes and zones, some of which are blocked, and pods, some with a node selector."""
    of = pool(
        budgets=(Budget(draw(st.sampled_from(["1", "2", "50%", "100%"]))),),
        generation_api=draw(st.sampled_from([V1, V1ALPHA5])),
    )
    running, pods = [], []
    for i in range(draw(st.integers(1, 8))):
        size, zone = draw(st.sampled_from(SIZES)), draw(st.sampled_from(ZONES))
        annotations = draw(st.sampled_from([{}, {}, {}, {keys.DO_NOT_DISRUPT: "true"}]))
        extra = draw(st.sampled_from([(CONSOLIDATABLE,), (CONSOLIDATABLE,), ()]))
        one = make_running(
            f"n{i}", f"m5.x{size:03d}", zone, pool=of, extra=extra, node_annotations=annotations
        )
        running.append(since(one, draw(st.sampled_from([60.0, 3600.0, 7200.0]))))
        left = size * 1000
        for j in range(draw(st.integers(0, 6))):
            cpu = draw(st.sampled_from([100, 500, 1500, 3000, 7000]))
            if cpu > left:
                continue
            left -= cpu
            pods.append(
                make_bound_pod(
                    f"n{i}-p{j}", f"n{i}", cpu=f"{cpu}m", owner=DEPLOYMENT,
                    node_selector=draw(st.sampled_from([{}, {}, {keys.ZONE: zone}])),
                    do_not_disrupt=draw(st.sampled_from(["", "", "", "", "true"])),
                )
            )  # fmt: skip
    return world(running, *pods, of=of)


churns = st.builds(
    Churn, st.sampled_from([0, 5_000, 100_000]), st.sampled_from([600, 3600, 86_400])
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(clusters(), churns)
def test_every_command_is_possible_allowed_and_pays(found: World, churn: Churn) -> None:
    """Commands are checked by counting, without the planner (CON-01..08, DIS-22..26)."""
    proposal = plan.propose(found, churn)
    assert len(proposal.commands) <= 1
    for command in proposal.commands:
        assert faults(found, command, churn) == []
        assert command.text
    assert all(r.text for r in proposal.rejections)


@pytest.mark.nightly
@settings(max_examples=1500, deadline=None)
@given(clusters(), churns)
def test_every_command_is_possible_allowed_and_pays_at_length(found: World, churn: Churn) -> None:
    for command in plan.propose(found, churn).commands:
        assert faults(found, command, churn) == []


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(clusters())
def test_a_command_stands_while_nothing_changes(found: World) -> None:
    """The validation after the delay (CON-11)."""
    for command in plan.propose(found).commands:
        assert validate(found, command).command == command


def six_half_empty_nodes(of: NodePool) -> World:
    """Three in each of two zones; no two fit on one, three pods of a zone fit on a node twice as large."""
    running, pods = [], []
    for i in range(6):
        zone = ZONES[i % 2]
        running.append(make_running(f"n{i}", "m5.x016", zone, pool=of))
        pods.append(
            make_bound_pod(
                f"p{i}", f"n{i}", cpu="9", owner=DEPLOYMENT, node_selector={keys.ZONE: zone}
            )
        )
    return world(running, *pods, of=of)


def test_six_nodes_become_two_at_once() -> None:
    """Karpenter's methods cannot find it, since it needs two new machines (CON-04)."""
    found = six_half_empty_nodes(pool())
    (command,) = plan.propose(found, FREE).commands
    assert len(command.candidates) == 6
    assert [m.instance_type for m in command.replacements] == ["m5.x032", "m5.x032"]
    assert {m.offering.zone for m in command.replacements} == set(ZONES[:2])
    assert command.saving_micro_usd_per_hour == (6 * 16 - 2 * 32) * 48_000
    assert faults(found, command, FREE) == []
    assert len(single_node.propose(found).commands) == 0


def test_both_replacements_are_recognised_in_any_order_and_under_any_name() -> None:
    """Validation with several replacements: a later plan names and sorts them differently (CON-11)."""
    found = six_half_empty_nodes(pool())
    (command,) = plan.propose(found, FREE).commands
    first, second = command.replacements
    turned = replace(command, replacements=(replace(second, name="b"), replace(first, name="a")))
    assert validate(found, turned).command == turned
    twice = replace(command, replacements=(first, first))
    kept = validate(found, twice).command
    assert kept is not None
    assert {c.machine.zone for c in kept.candidates} == {first.offering.zone}
    assert len(kept.replacements) == 1


def test_a_replacement_that_saves_nothing_any_more_is_dropped() -> None:
    found = six_half_empty_nodes(pool())
    (command,) = plan.propose(found, FREE).commands
    cheap = tuple(replace(c, price_micro_usd_per_hour=1) for c in found.candidates)
    assert validate(replace(found, candidates=cheap), command).cause == CHURN


def test_many_nodes_are_drained_with_one_command() -> None:
    """Karpenter's bound of a hundred nodes (CON-09) does not apply; only the budget does."""
    of = pool()
    running = [make_running(f"n{i:03d}", "m5.x008", pool=of) for i in range(12)]
    pods = [pod for one in running for pod in pods_on(one.node.name, 2, cpu="1")]
    found = world(running, *pods, of=of)
    (command,) = plan.propose(found).commands
    assert len(command.candidates) == 9
    assert command.decision == "delete"
    assert set(command.targets) == {one.node.name for one in running} - set(names_of(command))


def names_of(command: Command) -> list[str]:
    return [c.node.name for c in command.candidates]


def test_a_budget_limits_one_command() -> None:
    """Each candidate uses one of its budget (DIS-26)."""
    of = pool(budgets=(Budget("2"),))
    running = [make_running(f"n{i}", "m5.x008", pool=of) for i in range(6)]
    pods = [pod for one in running for pod in pods_on(one.node.name, 1)]
    (command,) = plan.propose(world(running, *pods, of=of)).commands
    assert len(command.candidates) == 2
    shut = pool(budgets=(Budget("0"),))
    assert not plan.propose(world(running, *pods, of=shut)).commands


def test_nodes_just_bought_are_not_moved_again() -> None:
    of = pool()
    running = [
        since(make_running("new", "m5.x016", pool=of), 30.0),
        since(make_running("old", "m5.x016", pool=of), 6000.0),
    ]
    pods = (*pods_on("new", 2), *pods_on("old", 2))
    proposal = plan.propose(world(running, *pods, of=of))
    assert names(proposal) == [["old"]]
    (rejection,) = proposal.rejections
    assert (rejection.machine_key, rejection.event) == ("NodeClaim/machine-new", UNCONSOLIDATABLE)
    assert "60 s ago" in rejection.text


def test_targets_of_running_commands_are_not_moved() -> None:
    """Nodes that take the pods are nominated, so they are not candidates (EXE-02)."""
    of = pool()
    running = [make_running(name, "m5.x016", pool=of) for name in ("a", "b")]
    found = world(running, *pods_on("a", 2), *pods_on("b", 2), of=of)
    without_a = tuple(c for c in found.candidates if c.node.name != "a")
    assert names(plan.propose(replace(found, candidates=without_a))) == [["b"]]


@pytest.mark.parametrize(("cost", "moves"), [(500_000, False), (100_000, True)])
def test_a_move_must_pay_back_in_time(cost: int, moves: bool) -> None:
    """One x004 costs 0.192 $/h, which limits the move cost of two pods for the given payback time."""
    of = pool()
    running = [make_running(name, pool=of) for name in ("a", "b")]
    found = world(running, *pods_on("a", 2), *pods_on("b", 2), of=of)
    churn = Churn(move_cost_micro_usd=cost, payback_seconds=2 * 3600)
    proposal = plan.propose(found, churn)
    assert bool(proposal.commands) is moves
    if not moves:
        assert len(proposal.rejections) == 2
        assert "moving them may cost, $0.5000 an hour" in proposal.rejections[0].text


@pytest.mark.parametrize("wrong", [{"move_cost_micro_usd": -1}, {"payback_seconds": 0}])
def test_a_wrong_price_of_moves_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        Churn(**wrong)


def test_what_the_search_did_not_foresee_is_left_out_and_named() -> None:
    """Pod affinity by host is checked by the planner only; the other nodes are removed all the same."""
    of = pool()
    running = [make_running(name, "m5.x008", pool=of) for name in ("a", "b", "c", "d")]
    pair = {"owner": DEPLOYMENT, "labels": {"app": "web"}}
    stuck = make_bound_pod("hermit", "a", owner=DEPLOYMENT, labels={"app": "hermit"},
                           anti_affinity=(make_term(keys.HOSTNAME),))  # fmt: skip
    web = [make_bound_pod(f"web-{name}", name, cpu="2", **pair) for name in ("b", "c", "d")]
    found = world(running, stuck, *web, of=of)
    (command,) = plan.propose(found).commands
    assert validate(found, command).command == command
    assert command.saving_micro_usd_per_hour >= 8 * 48_000


def test_a_cordoned_node_is_replaced_and_takes_nothing() -> None:
    """There are candidates and no target nodes."""
    of = pool()
    one = make_running("a", "m5.x064", pool=of)
    shut = one._replace(node=replace(one.node, unschedulable=True))
    (command,) = plan.propose(world([shut], *pods_on("a", 2), of=of)).commands
    assert (command.decision, command.targets) == ("replace", ())


def test_a_pod_that_cannot_be_planned_keeps_its_node() -> None:
    """An invalid pod cannot be planned (POD-03)."""
    of = pool()
    running = [make_running(name, "m5.x016", pool=of) for name in ("a", "b")]
    broken = pods_on("a", 1, faults=("spec.nodeSelector: wrong",))
    proposal = plan.propose(world(running, *broken, of=of))
    assert not proposal.commands
    assert any("spec.nodeSelector: wrong" in r.text for r in proposal.rejections)


def test_balanced_pools_keep_what_is_not_worth_its_disruption() -> None:
    """A Balanced pool's score decides (CON-12) and is collected for metrics (MET-06)."""
    of = pool(consolidation_policy=BALANCED)
    running = [make_running(name, "m5.x016", pool=of) for name in ("a", "b")]
    dear = pods_on("a", 12, priority=9 * 2**25)
    still = pods_on("b", 31, do_not_disrupt="true")
    seen = world(running, *dear, *still, of=of)
    proposal = plan.propose(seen)
    assert not proposal.commands
    assert any("Balanced" in r.text for r in proposal.rejections)
    assert seen.balanced_scores
    assert not any(move.approved for move in seen.balanced_scores)


def test_pools_that_only_remove_empty_nodes_are_left_alone() -> None:
    """CON-01: which machines may be consolidated."""
    of = pool(consolidation_policy=WHEN_EMPTY)
    running = [make_running(name, "m5.x016", pool=of) for name in ("a", "b")]
    proposal = plan.propose(world(running, *pods_on("a", 1), *pods_on("b", 1), of=of))
    assert not proposal.commands
    assert all("WhenEmpty" in r.text for r in proposal.rejections)


@pytest.mark.parametrize("gate", [False, True])
def test_spot_nodes_become_new_spot_nodes_only_as_the_gate_says(gate: bool) -> None:
    """CON-08: deleting them is always allowed."""
    of = pool(requirements=())
    spot = make_running("a", "m5.x128", capacity_type=keys.SPOT, pool=of)
    types = make_types(capacity_types=(keys.SPOT, keys.ON_DEMAND))
    cluster = make_cluster(
        [spot], *pods_on("a", 2, cpu="3"), pools=(of,), catalogue=make_catalogue(types)
    )
    gates = FeatureGates(spot_to_spot_consolidation=gate)
    proposal = plan.propose(make_world(cluster, gates=gates))
    assert not proposal.commands
    text = "requires 15 cheaper instance type options" if gate else SPOT_DISABLED
    assert any(text in r.text for r in proposal.rejections)


SHRUNK = {"big": ("m5.x064", 109), "small": ("m5.x032", 91)}
"""ACC-30: 400 pods of 250m on two nodes, scaled to 200."""


@pytest.mark.parametrize("generation", [V1ALPHA5, V1])
@pytest.mark.parametrize("consolidator", ["Karpenter", "Global"])
def test_after_a_scale_in_the_pods_end_on_cheaper_nodes(generation: str, consolidator: str) -> None:
    """ACC-30, second half. One of the two goes, at least half of the smaller one's price is saved."""
    of = pool(generation_api=generation)
    running = [make_running(name, kind, pool=of) for name, (kind, _) in SHRUNK.items()]
    pods = [p for n, (_, count) in SHRUNK.items() for p in pods_on(n, count, cpu="250m")]
    found = world(running, *pods, of=of)
    if consolidator == "Global":
        commands = plan.propose(found).commands
    else:
        commands = multi_node.propose(found).commands or single_node.propose(found).commands
    (command,) = commands
    assert len(command.candidates) == 1
    assert command.saving_micro_usd_per_hour >= 16 * 48_000
    assert validate(found, command).command == command


PROGRAM = """
from tests.shared.disruption.global_consolidation.test_global import proposal_as_bytes
print(proposal_as_bytes().decode())
"""


def proposal_as_bytes() -> bytes:
    """The encoded command."""
    proposal = plan.propose(six_half_empty_nodes(pool()), FREE)
    said = [(c.id, c.replacements, c.targets, c.text) for c in proposal.commands]
    return msgspec.json.encode([said, proposal.rejections])


@pytest.mark.slow
def test_the_proposal_does_not_depend_on_the_hash_seed() -> None:
    """Two processes propose the same commands, byte for byte."""
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment, cwd=ROOT, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert b"m5.x032" in done.stdout
    assert done.stdout.strip() == proposal_as_bytes()


@pytest.mark.parametrize(
    ("chosen", "buys_by"),
    [("FewestNodes", "LowestCost"), ("LowestCost", "LowestCost"), ("Balanced", "Balanced")],
)
def test_replacements_are_searched_for_by_the_policy_that_searches(
    chosen: str, buys_by: str
) -> None:
    """LowestCost would undo what Balanced planned."""
    world = make_world(make_snapshot(), solver=SolverSettings(packing_policy=chosen))
    assert buying(world).solver.packing_policy == buys_by
