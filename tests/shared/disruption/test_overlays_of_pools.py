"""A NodeOverlay that requires a pool's label decides for that pool's machines as one without requirements would, in
plans, in consolidation, in launches and in what is paid (NO-01)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.launcher.launch.offerings import choose
from services.scheduler.disruption.passes import pass_again
from shared.disruption.candidates import offering_prices, price_in
from shared.disruption.global_consolidation.churn import Churn
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.overlays import Overlay, overlaid, scope_of
from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.instance_types.types import Catalogue
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import (
    FEWEST_NODES,
    GLOBAL,
    KARPENTER,
    LOWEST_COST,
    WHEN_UNDERUTILIZED,
    Budget,
    NodePool,
)
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.simulation.alternatives import alternatives_of
from shared.simulation.decisions.records import PassQuestion
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import (
    ZONES,
    make_catalogue,
    make_machine,
    make_node_class,
    make_pod,
    make_pool,
    make_snapshot,
)
from tests.support.planning.disruption import NOW, make_cluster, make_running, pods_on

POLICIES = (FEWEST_NODES, LOWEST_COST)
FUSE = "example.com/fuse"


def pool(name: str) -> NodePool:
    return make_pool(
        name,
        generation_api=V1,
        consolidation_policy=WHEN_UNDERUTILIZED,
        consolidate_after_seconds=0.0,
        budgets=(Budget("100%"),),
    )


RED, BLUE = pool("red"), pool("blue")
OF_RED = Expression(keys.NODE_POOL, "In", ("red",))
SCOPES = tuple(one for one in (scope_of(RED), scope_of(BLUE)) if one is not None)
OWN_CLASS = make_node_class(generation_api=V1)


def said(kind: str, price: int | None, *also: Expression, fuse: int = 0) -> Overlay:
    wanted = Expression(keys.INSTANCE_TYPE, "In", (kind,))
    return Overlay(
        uid="o",
        name="o",
        requirements=(wanted, *also),
        price_micro_usd_per_hour=price,
        capacity={FUSE: fuse} if fuse else {},
    )


def catalogue(*overlays: Overlay) -> Catalogue:
    return overlaid(make_catalogue(), overlays, SCOPES)


def plan(policy: str, offers: Catalogue, *pods: Pod) -> Plan:
    snapshot = make_snapshot(*pods, pools=(RED, BLUE), node_classes=(OWN_CLASS,), catalogue=offers)
    return solve(snapshot, settings=SolverSettings(packing_policy=policy), now=NOW)


def waiting(count: int, where: str, **more: int) -> list[Pod]:
    at = {keys.NODE_POOL: where}
    made = (make_pod(f"{where}-{n}", cpu="1", node_selector=at) for n in range(count))
    return [replace(pod, requests={**pod.requests, **more}) for pod in made]


@pytest.mark.parametrize("policy", POLICIES)
def test_only_that_pool_buys_what_the_overlay_makes_cheap(policy: str) -> None:
    """16 cores for less than two: the others keep the smallest machine that holds their pods."""
    offers = catalogue(said("m5.x016", 1_000, OF_RED))
    found = plan(policy, offers, *waiting(1, "red"), *waiting(1, "blue"))
    bought = {
        one.pool: (one.instance_type, one.offering.price_micro_usd_per_hour)
        for one in found.machines
    }
    assert bought == {"red": ("m5.x016", 1_000), "blue": ("m5.x002", 96_000)}


@pytest.mark.parametrize("policy", POLICIES)
def test_only_that_pool_has_the_resource_of_the_overlay(policy: str) -> None:
    offers = catalogue(said("m5.x004", None, OF_RED, fuse=1))
    pods = [*waiting(1, "red", **{FUSE: 1}), *waiting(1, "blue", **{FUSE: 1})]
    found = plan(policy, offers, *pods)
    assert [(one.pool, one.instance_type) for one in found.machines] == [("red", "m5.x004")]
    assert [uid for uid in found.unschedulable if "blue" in uid]


TYPES = st.sampled_from(["m5.x002", "m5.x004", "m5.x008", "m5.x032"])
PRICES = st.sampled_from([0, 1_000, 95_000, 97_000, 200_000, 5_000_000])


@pytest.mark.slow
@given(TYPES, PRICES, st.sampled_from(POLICIES), st.integers(1, 12))
def test_a_plan_for_that_pool_is_as_if_the_overlay_held_for_all(
    kind: str, price: int, policy: str, count: int
) -> None:
    whole = plan(policy, catalogue(said(kind, price)), *waiting(count, "red"))
    of_pool = plan(policy, catalogue(said(kind, price, OF_RED)), *waiting(count, "red"))
    assert msgspec.json.encode(of_pool) == msgspec.json.encode(whole)
    usual = plan(policy, catalogue(), *waiting(count, "blue"))
    other = plan(policy, catalogue(said(kind, price, OF_RED)), *waiting(count, "blue"))
    assert msgspec.json.encode(other) == msgspec.json.encode(usual)


def running(of: NodePool, offers: Catalogue) -> Snapshot:
    """Three nodes of eight cores with little on them."""
    names = ("a", "b", "c")
    nodes = [make_running(name, "m5.x008", pool=of) for name in names]
    pods = [one for at, name in enumerate(names) for one in pods_on(name, 1 + at)]
    cluster = make_cluster(nodes, *pods, pools=(of,))
    return replace(cluster, catalogue=offers)


@pytest.mark.slow
@given(TYPES, PRICES, st.sampled_from([KARPENTER, GLOBAL]))
def test_consolidation_of_that_pool_is_as_if_the_overlay_held_for_all(
    kind: str, price: int, consolidation: str
) -> None:
    asked = PassQuestion(NOW, V1, SolverSettings(), FeatureGates(), consolidation, Churn())
    whole, of_pool = catalogue(said(kind, price)), catalogue(said(kind, price, OF_RED))
    assert pass_again(running(RED, of_pool), asked) == pass_again(running(RED, whole), asked)
    usual = pass_again(running(BLUE, catalogue()), asked)
    assert pass_again(running(BLUE, of_pool), asked) == usual


def test_a_node_costs_what_the_overlay_of_its_pool_says() -> None:
    offers = catalogue(said("m5.x008", 7, OF_RED))
    prices = offering_prices(offers)
    for one, price in ((RED, 7), (BLUE, 8 * 48_000)):
        machine = make_running("a", "m5.x008", pool=one).machine
        assert price_in(prices, machine) == price


def test_a_launch_takes_what_the_overlay_makes_cheap_for_its_pool() -> None:
    offers = catalogue(said("m5.x008", 7, OF_RED))
    found = {}
    for one in (RED, BLUE):
        labels = {one.label_key: one.name}
        machine = make_machine(pool=one.name, generation_api=V1, labels=labels)
        sizes = SizeSettings.of(machine, OWN_CLASS)
        chosen = choose(machine, offers, ZONES, frozenset(), sizes)
        found[one.name] = (chosen.choices[0].type.name, chosen.choices[0].price)
    assert found == {"red": ("m5.x008", 7), "blue": ("m5.x004", 4 * 48_000)}


def test_explain_compares_a_node_with_the_offers_of_its_pool() -> None:
    offers = catalogue(said("m5.x016", 7, OF_RED))
    cheaper = {}
    for one in (RED, BLUE):
        snapshot = running(one, offers)
        others = alternatives_of(snapshot.machines[0], snapshot)["others"]
        cheaper[one.name] = {x["instanceType"] for x in others if x["pricePerHour"] < 0.001}
    assert cheaper == {"red": {"m5.x016"}, "blue": set()}
