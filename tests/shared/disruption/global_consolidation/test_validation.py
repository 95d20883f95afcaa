"""Validation of a global command after pods were added and removed (CON-11)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.disruption.global_consolidation import plan
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.records import BUDGET, CHURN, SCHEDULING, Command, Verdict, World
from shared.disruption.validation import validate
from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.domain.workloads.pods import Pod
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_catalogue,
    make_pool,
    make_types,
)
from tests.support.planning.disruption import (
    DEPLOYMENT,
    NOW,
    make_cluster,
    make_running,
    make_world,
)

FREE = Churn(move_cost_micro_usd=0)
POOL = make_pool(
    generation_api=V1, consolidation_policy=WHEN_UNDERUTILIZED, consolidate_after_seconds=0.0,
    budgets=(Budget("100%"),), weight=10,
)  # fmt: skip
KEEPER = make_pool("keeper", generation_api=V1)
"""A machine whose node stays and has free resources."""


def pod(name: str, node: str, cpu: str, **changes: object) -> Pod:
    return make_bound_pod(name, node, cpu=cpu, owner=DEPLOYMENT, **changes)


PINNED = {keys.ZONE: ZONES[0]}
TYPES = make_catalogue(tuple(kind for kind in make_types() if kind.name <= "m5.x032"))
SIX = tuple(pod(f"p{i}", f"n{i}", "9", node_selector=PINNED) for i in range(6))
"""Pods on six nodes of 16; three of them fill a node of 32 better."""
KEPT = pod("kept", "k", "2")


def world(*pods: Pod, gone: frozenset[str] = frozenset(), catalogue: Catalogue = TYPES) -> World:
    """Six nodes whose pods are worth two, and one with room for 2 CPU that no consolidation touches."""
    running = [make_running(f"n{i}", "m5.x016", pool=POOL) for i in range(6)]
    running.append(make_running("k", "m5.x004", pool=KEEPER))
    left = tuple(one for one in (*SIX, KEPT, *pods) if one.name not in gone)
    return make_world(make_cluster(running, *left, pools=(POOL, KEEPER), catalogue=catalogue))


@pytest.fixture(scope="module")
def command() -> Command:
    """The command that replaces six nodes by two."""
    (found,) = plan.propose(world(), FREE).commands
    assert (len(found.candidates), len(found.replacements)) == (6, 2)
    return found


def again(found: World, command: Command, churn: Churn = FREE) -> Verdict:
    return validate(found, command, churn)


def nodes(verdict: Verdict) -> set[str]:
    assert verdict.command is not None, verdict.text
    return {c.node.name for c in verdict.command.candidates}


ALL = {f"n{i}" for i in range(6)}


@pytest.mark.parametrize(
    "found",
    [
        world(pod("new", "k", "1")),
        world(pod("new", "n1", "1")),
        world(gone=frozenset({"kept"})),
        world(gone=frozenset({"p5"})),
        world(pod("same", "n5", "9", node_selector=PINNED), gone=frozenset({"p5"})),
    ],
    ids=["elsewhere", "one more that fits elsewhere", "one less elsewhere", "one less", "another"],
)
def test_pods_that_come_and_go_do_no_harm(found: World, command: Command) -> None:
    """The replacements still hold all pods, although a new plan might have others."""
    if not {c.node.name for c in found.candidates if not c.empty} >= ALL:
        assert nodes(again(found, command)) == ALL - {"n5"}
    else:
        assert nodes(again(found, command)) == ALL


def test_a_node_whose_new_pod_has_no_place_stays(command: Command) -> None:
    """The other nodes are removed, and their replacements hold the pods."""
    verdict = again(world(pod("new", "n1", "6")), command)
    assert nodes(verdict) == ALL - {"n1"}
    assert verdict.command is not None
    assert verdict.command.moved_pods == 5
    assert verdict.command.saving_micro_usd_per_hour == (5 * 16 - 2 * 32) * 48_000


def test_it_is_rejected_when_what_is_left_does_not_pay(command: Command) -> None:
    """Two large pods were added, so four nodes of 16 need two of 32."""
    found = world(pod("a", "n1", "6"), pod("b", "n2", "6"))
    assert again(found, command).cause == CHURN


def test_it_must_pay_for_the_pods_of_now(command: Command) -> None:
    """Many small new pods would have to move too, so the command does not pay."""
    churn = Churn(move_cost_micro_usd=100_000, rest_seconds=0)
    assert again(world(), command, churn).command is not None
    came = [pod(f"new-{i}", f"n{i % 6}", "10m") for i in range(20)]
    assert again(world(*came), command, churn).cause == CHURN


def test_a_machine_that_nobody_needs_any_more_is_not_bought(command: Command) -> None:
    few = world(gone=frozenset({"p3", "p4", "p5"}))
    verdict = again(few, command)
    assert nodes(verdict) == {"n0", "n1", "n2"}
    assert verdict.command is not None
    assert verdict.command.replacements == ()


def test_prices_of_now_count(command: Command) -> None:
    dear = tuple(
        replace(
            kind,
            offerings=tuple(
                replace(o, price_micro_usd_per_hour=3 * o.price_micro_usd_per_hour)
                if kind.name == "m5.x032" else o
                for o in kind.offerings
            ),
        )
        for kind in TYPES.types
    )  # fmt: skip
    assert again(world(catalogue=make_catalogue(dear)), command).cause == CHURN


def test_what_is_not_on_offer_any_more_is_not_bought(command: Command) -> None:
    found = world()
    gone = frozenset(("on-demand", "m5.x032", zone) for zone in ZONES)
    sold_out = replace(found, snapshot=replace(found.snapshot, unavailable=gone))
    assert again(sold_out, command).cause == SCHEDULING


@pytest.mark.parametrize("limits", [{"cpu": 50_000}, {"nodes": 1}])
def test_limits_of_now_count(command: Command, limits: dict[str, int]) -> None:
    """SCH-100: without the six nodes there is room for one new machine, not for two."""
    found = world()
    pools = tuple(replace(p, limits=limits) if p.key == POOL.key else p for p in (POOL, KEEPER))
    limited = replace(found, snapshot=replace(found.snapshot, pools=pools))
    assert again(limited, command).cause == SCHEDULING


def test_a_pool_that_is_gone_buys_nothing(command: Command) -> None:
    found = world()
    lonely = replace(found, snapshot=replace(found.snapshot, pools=(KEEPER,)))
    assert again(lonely, command).cause == SCHEDULING


def test_budgets_and_blocks_of_now_count(command: Command) -> None:
    """DIS-11, DIS-22..DIS-26: blocked pods and budgets."""
    found = world()
    none = replace(found, allowed=dict.fromkeys(found.allowed, 0))
    assert again(none, command).cause == BUDGET
    held = world(*(replace(one, do_not_disrupt="true") for one in SIX), gone=frozenset())
    blocked = tuple(replace(c, blocker="a pod says no") for c in held.candidates)
    assert again(replace(held, candidates=blocked), command).cause == CHURN


def test_a_node_that_must_not_go_any_more_stays_alone(command: Command) -> None:
    """For example, it was nominated meanwhile (DIS-10)."""
    found = world()
    rest = tuple(c for c in found.candidates if c.node.name != "n0")
    assert nodes(again(replace(found, candidates=rest), command)) == ALL - {"n0"}


def test_time_alone_changes_nothing(command: Command) -> None:
    assert again(replace(world(), now=NOW + 15), command).command == command
