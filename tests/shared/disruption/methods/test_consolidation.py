"""Karpenter's consolidation: eligibility, price filter, spot rules, search (CON-01..14)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.disruption.methods import multi_node, single_node
from shared.disruption.methods.consolidation import by_savings_ratio, eligible, is_balanced
from shared.disruption.records import BUDGET, CHURN, SCHEDULING, Command, World
from shared.disruption.replacement_price import NOT_CHEAPER, SPOT_BY_SPOT, SPOT_DISABLED
from shared.disruption.simulation import simulate
from shared.disruption.validation import validate
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.types import InstanceType, Offering
from shared.domain.machines.machine import CONSOLIDATABLE
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import (
    BALANCED,
    WHEN_EMPTY,
    WHEN_UNDERUTILIZED,
    Budget,
    NodePool,
)
from tests.support.planning.builders import ZONES, make_catalogue, make_pool, make_type
from tests.support.planning.disruption import (
    Running,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)

SPOT_GATE = FeatureGates(spot_to_spot_consolidation=True)
ANY_CAPACITY = (
    Expression(keys.OS, "In", ("linux",)),
    Expression(keys.ARCH, "In", ("amd64",)),
    Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT, keys.ON_DEMAND)),
)
MOST = (Budget("100%"),)


def pool(**changes: Any) -> NodePool:
    fields: dict[str, Any] = {
        "generation_api": V1,
        "consolidation_policy": WHEN_UNDERUTILIZED,
        "consolidate_after_seconds": 0.0,
        "budgets": MOST,
    }
    return make_pool(**{**fields, **changes})


def world(
    running: list[Running],
    *pods: Any,
    of: NodePool,
    gates: FeatureGates = SPOT_GATE,
    **changes: Any,
) -> World:
    return make_world(make_cluster(running, *pods, pools=(of,), **changes), gates=gates)


def texts(proposal: Any) -> list[str]:
    return [rejection.text for rejection in proposal.rejections]


def offered(kind: InstanceType, *offerings: tuple[str, int]) -> InstanceType:
    """A type with these (capacity type, price) in every zone."""
    return replace(
        kind, offerings=tuple(Offering(zone, c, price) for zone in ZONES for c, price in offerings)
    )


def spot_catalogue(cheaper_types: int) -> Any:
    """One m5.x008 at 900 spot, and ``count`` cheaper types of 8 vCPU."""
    big = offered(make_type("m5.x008", 8, 32, 1), (keys.SPOT, 900), (keys.ON_DEMAND, 3000))
    rest = [
        offered(make_type(f"c{i}.x004", 4, 16, 1), (keys.SPOT, 100 + i), (keys.ON_DEMAND, 2000))
        for i in range(cheaper_types)
    ]
    return make_catalogue((big, *rest))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"consolidate_after_seconds": None}, 'NodePool "default" has consolidation disabled'),
        (
            {"consolidation_policy": WHEN_EMPTY},
            'NodePool "default" has consolidation policy WhenEmpty, but node is not empty',
        ),
    ],
)
def test_a_pool_may_say_no(changes: dict[str, Any], text: str) -> None:
    """CON-01: which machines may be consolidated."""
    of = pool(**changes)
    kept, rejections = eligible(world([make_running(pool=of)], *pods_on("n1", 1), of=of))
    assert not kept
    assert [r.text for r in rejections] == [text]


def test_a_node_without_a_known_type_stays() -> None:
    """CON-01: which machines may be consolidated."""
    of = pool()
    strange = make_running("strange", "z9.x004", pool=of)
    bare = make_running("bare", pool=of)
    bare = bare._replace(node=replace(bare.node, labels={keys.NODE_POOL: "default"}))
    _, rejections = eligible(
        world([bare, strange], *pods_on("strange", 1), *pods_on("bare", 1), of=of)
    )
    assert [r.text for r in rejections] == [
        f'Node does not have label "{keys.INSTANCE_TYPE}"',
        'Instance Type "z9.x004" not found',
    ]


def test_v1alpha5_nodes_can_be_kept_from_consolidation_alone() -> None:
    """The opt-out annotations of v1alpha5 (DIS-14)."""
    of = make_pool(consolidation_policy=WHEN_UNDERUTILIZED, consolidate_after_seconds=0.0)
    held = make_running(pool=of, node_annotations={keys.DO_NOT_CONSOLIDATE: "true"})
    kept, rejections = eligible(world([held], *pods_on("n1", 1), of=of))
    assert not kept
    assert keys.DO_NOT_CONSOLIDATE in rejections[0].text


def test_a_node_whose_pods_fit_on_the_others_is_deleted() -> None:
    """A command deletes machines, or creates one replacement (CON-04)."""
    of = pool()
    cluster = [make_running("a", pool=of), make_running("b", pool=of)]
    found = world(cluster, *pods_on("a", 2), *pods_on("b", 2), of=of)
    (command,) = single_node.propose(found).commands
    assert command.decision == "delete"
    assert [c.node.name for c in command.candidates] == ["a"]
    assert command.targets == ("b",)
    assert command.saving_micro_usd_per_hour == 4 * 48_000


def test_a_node_that_is_too_large_is_replaced_by_a_cheaper_one() -> None:
    """The replacement has only types that cost strictly less than the node (CON-05)."""
    of = pool()
    found = world([make_running("a", "m5.x016", pool=of)], *pods_on("a", 6), of=of)
    (command,) = single_node.propose(found).commands
    assert command.decision == "replace"
    assert command.replacements[0].instance_types == ("m5.x004", "m5.x008")
    assert command.saving_micro_usd_per_hour == (16 - 4) * 48_000


def test_one_machine_is_bought_where_lowest_cost_would_buy_several() -> None:
    """Several would be refused (CON-04), and the node would stay although one machine is cheaper too."""
    of = pool(packing="LowestCost")
    large = make_running("a", "m5.x032", pool=of)
    found = world([large], *pods_on("a", 21), of=of)
    assert len(simulate(found, found.candidates, consolidating=True).machines) == 2
    (command,) = single_node.propose(found).commands
    assert [one.instance_type for one in command.replacements] == ["m5.x016"]
    assert validate(found, command).command is not None


def test_a_node_of_the_right_size_stays_and_says_why() -> None:
    of = pool()
    found = world([make_running("a", "m5.x004", pool=of)], *pods_on("a", 6), of=of)
    proposal = single_node.propose(found)
    assert not proposal.commands
    assert texts(proposal) == [NOT_CHEAPER]


def test_a_young_neighbour_takes_no_pods() -> None:
    """Its consolidateAfter has not passed (SCH-54)."""
    of = pool(consolidate_after_seconds=60.0)
    cluster = [make_running("a", pool=of), make_running("b", pool=of, extra=())]
    found = world(cluster, *pods_on("a", 2), *pods_on("b", 2), of=of)
    (command,) = single_node.propose(found).commands
    assert (command.decision, command.targets) == ("replace", ())


def test_spot_nodes_are_not_replaced_by_spot_nodes_unless_the_gate_is_open() -> None:
    """Without the feature gate, spot is not replaced by spot (ACC-72)."""
    of = pool(requirements=ANY_CAPACITY)
    spot = make_running("a", "m5.x008", capacity_type=keys.SPOT, pool=of)
    found = world(
        [spot], *pods_on("a", 2), of=of, gates=FeatureGates(), catalogue=spot_catalogue(20)
    )
    assert texts(single_node.propose(found)) == [SPOT_DISABLED]


def test_a_spot_node_of_the_right_size_hears_of_the_gate_first() -> None:
    """As in Karpenter: whether spot replaces spot at all is asked before the price (CON-08)."""
    of = pool(requirements=ANY_CAPACITY)
    spot = make_running("a", "m5.x008", capacity_type=keys.SPOT, pool=of)
    only = {"of": of, "catalogue": spot_catalogue(0)}
    closed = world([spot], *pods_on("a", 6), gates=FeatureGates(), **only)
    assert texts(single_node.propose(closed)) == [SPOT_DISABLED]
    assert texts(single_node.propose(world([spot], *pods_on("a", 6), **only))) == [NOT_CHEAPER]


def test_fourteen_cheaper_spot_types_are_not_enough() -> None:
    """14 cheaper types are one less than required (ACC-72)."""
    of = pool(requirements=ANY_CAPACITY)
    spot = make_running("a", "m5.x008", capacity_type=keys.SPOT, pool=of)
    found = world([spot], *pods_on("a", 2), of=of, catalogue=spot_catalogue(14))
    (text,) = texts(single_node.propose(found))
    assert "15" in text
    assert "got 14" in text


def test_of_twenty_cheaper_spot_types_the_cheapest_fifteen_are_asked_for() -> None:
    """The launch lists 15 of 20 cheaper types (ACC-72)."""
    of = pool(requirements=ANY_CAPACITY)
    spot = make_running("a", "m5.x008", capacity_type=keys.SPOT, pool=of)
    found = world([spot], *pods_on("a", 2), of=of, catalogue=spot_catalogue(20))
    (command,) = single_node.propose(found).commands
    assert command.replacements[0].instance_types == tuple(f"c{i}.x004" for i in range(15))


def test_v1alpha5_never_replaces_spot_by_spot() -> None:
    """Spot machines of a Provisioner are not replaced by spot (CON-14)."""
    of = make_pool(
        consolidation_policy=WHEN_UNDERUTILIZED,
        consolidate_after_seconds=0.0,
        requirements=ANY_CAPACITY,
    )
    spot = make_running("a", "m5.x008", capacity_type=keys.SPOT, pool=of)
    found = world([spot], *pods_on("a", 2), of=of, catalogue=spot_catalogue(20))
    assert texts(single_node.propose(found)) == [SPOT_BY_SPOT]


@pytest.mark.parametrize(("both", "pinned"), [(True, True), (False, False)])
def test_an_on_demand_node_is_replaced_by_spot_only_when_both_are_allowed(
    both: bool, pinned: bool
) -> None:
    """On-demand is replaced by spot only, without a fallback to on-demand (ACC-73, CON-06)."""
    of = pool(**({"requirements": ANY_CAPACITY} if both else {}))
    found = world(
        [make_running("a", "m5.x008", pool=of)],
        *pods_on("a", 2),
        of=of,
        catalogue=spot_catalogue(3),
    )
    (command,) = single_node.propose(found).commands
    wanted = {e.key: e.values for e in command.replacements[0].requirements}
    assert (wanted[keys.CAPACITY_TYPE] == (keys.SPOT,)) is pinned


def test_what_saves_most_per_disruption_comes_first() -> None:
    """Order: price per disruption cost, descending, then name (CON-02)."""
    of = pool()
    cluster = [make_running("a", "m5.x008", pool=of), make_running("b", "m5.x016", pool=of)]
    cluster += [make_running(name, "m5.x008", pool=of) for name in ("d", "c")]
    counts = {"a": 1, "b": 9, "c": 3, "d": 3}
    pods = [pod for name, count in counts.items() for pod in pods_on(name, count)]
    kept, _ = eligible(world(cluster, *pods, of=of))
    assert [c.node.name for c in by_savings_ratio(kept)] == ["a", "c", "d", "b"]


def test_a_command_for_some_still_says_why_the_others_stay() -> None:
    """Single-node consolidation, which would report it, does not run any more (CON-01)."""
    of = pool()
    cluster = [make_running(name, "m5.x008", pool=of) for name in ("a", "b", "held")]
    pods = [pod for name in ("a", "b") for pod in pods_on(name, 3)]
    held = pods_on("held", 1, do_not_disrupt="true")
    found = multi_node.propose(world(cluster, *pods, *held, of=of))
    assert found.commands
    assert [(r.node, r.pod) for r in found.rejections] == [("held", "default/held-pod-0")]


def test_several_nodes_become_one() -> None:
    """With consolidation enabled, half-empty nodes are joined (CON-09, ACC-30)."""
    of = pool()
    cluster = [make_running(name, "m5.x016", pool=of) for name in ("a", "b", "c")]
    pods = [pod for name in ("a", "b", "c") for pod in pods_on(name, 3)]
    (command,) = multi_node.propose(world(cluster, *pods, of=of)).commands
    assert [c.node.name for c in command.candidates] == ["a", "b", "c"]
    assert len(command.replacements) == 1


def test_a_replacement_of_the_same_type_must_beat_keeping_that_node() -> None:
    """Replacing two x004 by one x004 is the same as deleting one of them (CON-09)."""
    of = pool()
    cluster = [make_running(name, "m5.x004", pool=of) for name in ("a", "b")]
    pods = [pod for name in ("a", "b") for pod in pods_on(name, 3, cpu="600m")]
    assert not multi_node.propose(world(cluster, *pods, of=of)).commands


def test_a_budget_of_one_leaves_nothing_for_several_at_once() -> None:
    of = pool(budgets=(Budget("1"),))
    cluster = [make_running(name, "m5.x008", pool=of) for name in ("a", "b", "c")]
    pods = [pod for name in ("a", "b", "c") for pod in pods_on(name, 3)]
    assert not multi_node.propose(world(cluster, *pods, of=of)).commands


def test_what_a_pass_does_not_reach_comes_first_in_the_next() -> None:
    """The order of single-node consolidation (CON-10)."""
    of = pool()
    cluster = [make_running(name, "m5.x004", pool=of) for name in ("a", "b", "c")]
    pods = [pod for name in ("a", "b", "c") for pod in pods_on(name, 7)]
    found = world(cluster, *pods, of=of)
    first = single_node.propose(found, most=2)
    assert first.unseen == ("NodeClaim/machine-c",)
    second = single_node.propose(found, first=frozenset(first.unseen), most=1)
    assert [r.machine_key for r in second.rejections] == ["NodeClaim/machine-c"]


def test_balanced_moves_only_what_pays() -> None:
    """CON-12: half of one node's price is a quarter of the pool's, its dear pods four fifths of the disruption. What
    was weighed is there to be counted (MET-06)."""
    few = pool(consolidation_policy=BALANCED)
    cluster = [make_running("a", "m5.x016", pool=few), make_running("b", "m5.x016", pool=few)]
    cheap = world(cluster, *pods_on("a", 1), *pods_on("b", 26), of=few)
    assert single_node.propose(cheap).commands
    (move,) = cheap.balanced_scores
    assert (move.pool, move.approved) == ("default", True)
    assert 0.5 <= move.score <= 10
    dear_pods = pods_on("a", 12, priority=9 * 2**25)
    dear = world(cluster, *dear_pods, *pods_on("b", 31, do_not_disrupt="true"), of=few)
    answer = single_node.propose(dear)
    assert not answer.commands
    assert "saves too little for what it disrupts (Balanced)" in texts(answer)
    (move,) = dear.balanced_scores
    assert not move.approved
    assert move.score == pytest.approx(0.25 / 0.8, rel=0.2)


def test_a_balanced_pool_that_costs_nothing_has_no_score_without_end() -> None:
    """In a pool that costs nothing, a move without saving is approved and one with a cost is not (MET-06)."""
    few = pool(consolidation_policy=BALANCED)
    free = make_catalogue((offered(make_type("m5.x016", 16, 64), ("on-demand", 0)),))
    cluster = [make_running("a", "m5.x016", pool=few)]
    for saving, score in ((0, 10.0), (-1, 0.0)):
        seen = world(cluster, *pods_on("a", 1), of=few, catalogue=free)
        command = Command("single-node", "Underutilized", seen.candidates, (), (), saving)
        assert is_balanced(seen, command) == (saving == 0)
        assert [move.score for move in seen.balanced_scores] == [score]


def command_of(found: World) -> Command:
    return single_node.propose(found).commands[0]


def test_a_command_is_looked_at_again_before_it_acts() -> None:
    """A blocking pod, a smaller budget or a new pod makes a command invalid (CON-11)."""
    of = pool()
    cluster = [make_running("a", pool=of), make_running("b", pool=of)]
    pods = (*pods_on("a", 2), *pods_on("b", 2))
    command = command_of(world(cluster, *pods, of=of))
    assert validate(world(cluster, *pods, of=of), command).command == command
    held = tuple(replace(pod, do_not_disrupt="true") for pod in pods)
    assert validate(world(cluster, *held, of=of), command).cause == CHURN
    closed = pool(budgets=(Budget("0"),))
    assert validate(world(cluster, *pods, of=closed), command).cause == BUDGET
    fuller = (*pods, *pods_on("b", 4, cpu="700m"))
    assert validate(world(cluster, *fuller, of=of), command).cause == SCHEDULING


def test_a_machine_that_is_not_consolidatable_yet_is_left_alone() -> None:
    """v1 machines need the condition Consolidatable (DIS-20)."""
    of = pool(consolidate_after_seconds=60.0)
    young = make_running("a", "m5.x016", pool=of, extra=())
    assert not young.machine.has(CONSOLIDATABLE)
    assert not single_node.propose(world([young], *pods_on("a", 2), of=of)).commands
