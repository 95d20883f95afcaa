"""Topology spread, affinity and anti-affinity (SCH-70..SCH-84)."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import PREFER_NO_SCHEDULE, Expression, Taint, Toleration
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import NOBODY, Pod
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    make_bound_pod,
    make_catalogue,
    make_node,
    make_node_class,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_spread,
    make_term,
    make_types,
)
from tests.support.planning.snapshots import check_plan, plan_for, pods_per_machine

WEB = {"app": "web"}
ZONE_SPREAD = (make_spread(keys.ZONE),)


def pods_per_zone(plan: Plan) -> dict[str, int]:
    """Planned pods by the zone their machine is pinned to."""
    found: Counter[str] = Counter()
    for machine in plan.machines:
        found[machine.labels[keys.ZONE]] += len(machine.pods)
    return dict(found)


def in_zones(*zones: str) -> Snapshot:
    """A cluster whose pool reaches these zones only."""
    subnets = tuple(s for s in make_node_class().subnets if s.zone in zones)
    return make_snapshot(node_classes=(make_node_class(subnets=subnets),))


def test_sch_73_a_zone_spread_is_even() -> None:
    """SCH-84: each zone gets its own machine."""
    snapshot = make_snapshot(*make_pods(7, labels=WEB, spread=ZONE_SPREAD))
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    assert pods_per_zone(plan) == {ZONES[0]: 3, ZONES[1]: 2, ZONES[2]: 2}
    assert len(plan.machines) == 3


def test_sch_72_running_pods_count() -> None:
    bound = (make_bound_pod("a", "node-1", labels=WEB), make_bound_pod("b", "node-1", labels=WEB))
    pods = make_pods(2, cpu="9", labels=WEB, spread=ZONE_SPREAD)
    plan = plan_for(make_snapshot(*pods, *bound, nodes=(make_node(),)))
    assert pods_per_zone(plan) == {ZONES[1]: 1, ZONES[2]: 1}


def test_sch_72_terminating_other_and_foreign_pods_do_not_count() -> None:
    bound = (
        make_bound_pod("a", "node-1", labels=WEB, terminating=True),
        make_bound_pod("b", "node-1", labels={"app": "other"}),
        make_bound_pod("c", "node-1", labels=WEB, namespace="elsewhere"),
    )
    pods = make_pods(1, cpu="9", labels=WEB, spread=ZONE_SPREAD)
    plan = plan_for(make_snapshot(*pods, *bound, nodes=(make_node(),)))
    assert pods_per_zone(plan) == {ZONES[0]: 1}


def test_scenario_70_a_zone_without_the_pool_is_no_domain() -> None:
    """SCH-71: domains of a topology key."""
    pods = make_pods(4, labels=WEB, spread=ZONE_SPREAD)
    plan = plan_for(replace(in_zones(*ZONES[:2]), pods=pods))
    assert pods_per_zone(plan) == {ZONES[0]: 2, ZONES[1]: 2}


def test_scenario_70_too_few_domains_hold_one_pod_each() -> None:
    """SCH-75: the next pod stays pending."""
    pods = make_pods(3, labels=WEB, spread=(make_spread(keys.ZONE, min_domains=3),))
    plan = plan_for(replace(in_zones(*ZONES[:2]), pods=pods))
    assert pods_per_zone(plan) == {ZONES[0]: 1, ZONES[1]: 1}
    [text] = plan.unschedulable.values()
    assert f"unsatisfiable topology constraint for topology spread, key={keys.ZONE}" in text


def test_sch_49_the_verdict_counts_the_domains_and_says_what_pod_and_node_allow() -> None:
    """The exact text, since users search for it."""
    chosen = {keys.ZONE: ZONES[0]}
    pods = (
        make_bound_pod("a", "node-1", labels=WEB),
        make_pod(labels=WEB, node_selector=chosen, anti_affinity=(make_term(keys.ZONE),)),
    )
    [text] = plan_for(
        replace(in_zones(ZONES[0]), pods=pods, nodes=(make_node(),))
    ).unschedulable.values()
    zone = f"{keys.ZONE} In [{ZONES[0]}]"
    assert text.endswith(
        f"unsatisfiable topology constraint for pod anti-affinity, key={keys.ZONE}"
        f" (counts = {{{ZONES[0]}: 1}}, podDomains = {zone}, nodeDomains = {zone})"
    )


def test_sch_74_the_smallest_host_count_is_zero() -> None:
    spread = (make_spread(keys.HOSTNAME, 2),)
    plan = plan_for(make_snapshot(*make_pods(5, labels=WEB, spread=spread)))
    assert pods_per_machine(plan) == [2, 2, 1]


def test_sch_74_existing_hosts_keep_their_count() -> None:
    spread = (make_spread(keys.HOSTNAME, 2),)
    bound = make_bound_pod("a", "node-1", labels=WEB)
    pods = make_pods(2, labels=WEB, spread=spread)
    plan = plan_for(make_snapshot(*pods, bound, nodes=(make_node(),)))
    assert plan.existing == {"node-1": ("uid-pod-00000",)}
    assert pods_per_machine(plan) == [1]


def test_sch_76_only_nodes_that_the_pod_may_use_are_counted() -> None:
    selector = {"pool": "blue"}
    pool = make_pool(labels=selector)
    bound = (make_bound_pod("a", "node-1", labels=WEB), make_bound_pod("b", "node-1", labels=WEB))
    pods = make_pods(1, labels=WEB, spread=ZONE_SPREAD, node_selector=selector)
    plan = plan_for(make_snapshot(*pods, *bound, nodes=(make_node(),), pools=(pool,)))
    assert pods_per_zone(plan) == {ZONES[0]: 1}


BLUE = {"pool": "blue"}


def two_busy_pods_on(node: str) -> tuple[Pod, ...]:
    return tuple(make_bound_pod(f"{node}-{i}", node, labels=WEB) for i in range(2))


def test_sch_76_by_default_nodes_that_the_pod_may_not_use_are_no_domains() -> None:
    """Another pool reaches three zones, the pod's own pool one: only that zone counts."""
    here = tuple(s for s in make_node_class().subnets if s.zone == ZONES[0])
    pools = (make_pool("blue", labels=BLUE, node_class="here"), make_pool("all"))
    classes = (make_node_class(), make_node_class("here", subnets=here))
    pods = make_pods(3, labels=WEB, spread=ZONE_SPREAD, node_selector=BLUE)
    plan = plan_for(make_snapshot(*pods, pools=pools, node_classes=classes))
    assert pods_per_zone(plan) == {ZONES[0]: 3}


def test_sch_76_node_affinity_policy_ignore_counts_every_node() -> None:
    """The empty node in the second zone keeps the smallest count at zero; kube-scheduler sees it too."""
    spread = (make_spread(keys.ZONE, node_affinity_policy="Ignore"),)
    selector = {keys.ZONE: ZONES[0]}
    pods = make_pods(3, cpu="9", labels=WEB, spread=spread, node_selector=selector)
    elsewhere = make_node("far", labels={keys.ZONE: ZONES[1]})
    plan = plan_for(make_snapshot(*pods, nodes=(elsewhere,)))
    assert pods_per_zone(plan) == {ZONES[0]: 1}
    assert len(plan.unschedulable) == 2
    assert pods_per_zone(plan_for(make_snapshot(*pods))) == {ZONES[0]: 3}


def test_sch_76_node_affinity_policy_ignore_counts_pods_on_every_node() -> None:
    spread = (make_spread(keys.ZONE, node_affinity_policy="Ignore"),)
    pods = make_pods(1, labels=WEB, spread=spread, node_selector=BLUE)
    snapshot = make_snapshot(
        *pods, *two_busy_pods_on("node-1"), nodes=(make_node(),), pools=(make_pool(labels=BLUE),)
    )
    assert pods_per_zone(plan_for(snapshot)) == {ZONES[1]: 1}


TAINT = Taint("team", "NoSchedule", "red")


@pytest.mark.parametrize(("policy", "zone"), [("Ignore", ZONES[1]), ("Honor", ZONES[0])])
def test_sch_76_node_taints_policy_decides_whether_a_tainted_node_counts(
    policy: str, zone: str
) -> None:
    spread = (make_spread(keys.ZONE, node_taints_policy=policy),)
    pods = make_pods(1, cpu="9", labels=WEB, spread=spread)
    node = make_node(taints=(TAINT,))
    plan = plan_for(make_snapshot(*pods, *two_busy_pods_on("node-1"), nodes=(node,)))
    assert pods_per_zone(plan) == {zone: 1}


@pytest.mark.parametrize(("policy", "placed"), [("Ignore", 2), ("Honor", 4)])
def test_sch_76_node_taints_policy_decides_whether_a_tainted_pool_brings_domains(
    policy: str, placed: int
) -> None:
    """Only the tainted pool reaches the other two zones."""
    subnets = make_node_class().subnets
    classes = (make_node_class(subnets=subnets[:2]), make_node_class("far", subnets=subnets[2:]))
    pools = (make_pool(), make_pool("red", node_class="far", taints=(TAINT,)))
    spread = (make_spread(keys.ZONE, node_taints_policy=policy),)
    pods = make_pods(4, labels=WEB, spread=spread)
    plan = plan_for(make_snapshot(*pods, pools=pools, node_classes=classes))
    assert sum(pods_per_zone(plan).values()) == placed


def test_sch_76_a_tolerated_or_a_soft_taint_keeps_nothing_out() -> None:
    spread = (make_spread(keys.ZONE, node_taints_policy="Honor"),)
    tolerates = (Toleration("team", "Exists"),)
    node = make_node(taints=(TAINT, Taint("soft", PREFER_NO_SCHEDULE)))
    pods = make_pods(1, cpu="9", labels=WEB, spread=spread, tolerations=tolerates)
    plan = plan_for(make_snapshot(*pods, *two_busy_pods_on("node-1"), nodes=(node,)))
    assert pods_per_zone(plan) == {ZONES[1]: 1}


def test_sch_75_min_domains_means_nothing_for_a_soft_spread() -> None:
    pods = make_pods(4, labels=WEB, spread=(make_spread(keys.ZONE, hard=False, min_domains=3),))
    plan = plan_for(replace(in_zones(*ZONES[:2]), pods=pods))
    assert pods_per_zone(plan) == {ZONES[0]: 2, ZONES[1]: 2}


def test_sch_75_enough_domains_leave_the_smallest_count_as_it_is() -> None:
    pods = make_pods(9, labels=WEB, spread=(make_spread(keys.ZONE, min_domains=3),))
    assert set(pods_per_zone(plan_for(make_snapshot(*pods))).values()) == {3}


def test_sch_70_an_empty_selector_counts_every_pod_of_the_namespace() -> None:
    """Also running pods without any label."""
    spread = (make_spread(keys.ZONE, match_labels={}),)
    bound = tuple(make_bound_pod(f"b{i}", "node-1") for i in range(2))
    foreign = make_bound_pod("foreign", "node-2", namespace="elsewhere")
    nodes = (make_node(), make_node("node-2", labels={keys.ZONE: ZONES[1]}))
    pods = make_pods(2, cpu="9", spread=spread)
    plan = plan_for(make_snapshot(*pods, *bound, foreign, nodes=nodes))
    assert pods_per_zone(plan) == {ZONES[1]: 1, ZONES[2]: 1}


def test_sch_70_no_selector_counts_nobody() -> None:
    spread = (make_spread(keys.HOSTNAME, match_labels={}, expressions=(NOBODY,)),)
    assert pods_per_machine(plan_for(make_snapshot(*make_pods(3, spread=spread)))) == [3]
    alone = (make_term(keys.HOSTNAME, match_labels={}, expressions=(NOBODY,)),)
    assert pods_per_machine(plan_for(make_snapshot(*make_pods(3, anti_affinity=alone)))) == [3]


@pytest.mark.parametrize(
    ("operator", "values", "sizes"),
    [("In", ("web", "db"), [1, 1]), ("NotIn", ("web",), [2]), ("Exists", (), [1, 1]),
     ("DoesNotExist", (), [2])],
)  # fmt: skip
def test_sch_70_selectors_have_the_operators_of_kubernetes(
    operator: str, values: tuple[str, ...], sizes: list[int]
) -> None:
    chosen = (Expression("app", operator, values),)
    spread = (make_spread(keys.HOSTNAME, match_labels={}, expressions=chosen),)
    plan = plan_for(make_snapshot(*make_pods(2, labels=WEB, spread=spread)))
    assert pods_per_machine(plan) == sizes


def test_sch_77_match_label_keys_separate_revisions() -> None:
    spread = (make_spread(keys.HOSTNAME, match_label_keys=("rev",)),)
    old = make_pods(1, "old", labels={**WEB, "rev": "1"}, spread=spread)
    new = make_pods(1, "new", labels={**WEB, "rev": "2"}, spread=spread)
    assert pods_per_machine(plan_for(make_snapshot(*old, *new))) == [2]


def test_sch_78_a_soft_spread_gives_way() -> None:
    """A ScheduleAnyway constraint is dropped within the same plan (SCH-23, SCH-24)."""
    pods = make_pods(3, labels=WEB, spread=(make_spread(keys.ZONE, hard=False, min_domains=9),))
    plan = plan_for(replace(in_zones(ZONES[0]), pods=pods))
    assert sum(pods_per_machine(plan)) == 3
    assert plan.unschedulable == {}


def test_sch_26_the_ignore_policy_drops_soft_spreads_up_front() -> None:
    pods = make_pods(3, labels=WEB, spread=(make_spread(keys.HOSTNAME, hard=False),))
    plan = plan_for(make_snapshot(*pods), preference_policy="Ignore")
    assert pods_per_machine(plan) == [3]


def test_sch_79_capacity_type_is_a_domain_too() -> None:
    both = Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT, keys.ON_DEMAND))
    pool = make_pool(requirements=(*DEFAULT_REQUIREMENTS[:2], both))
    types = make_types(capacity_types=(keys.SPOT, keys.ON_DEMAND))
    pods = make_pods(4, labels=WEB, spread=(make_spread(keys.CAPACITY_TYPE),))
    plan = plan_for(make_snapshot(*pods, pools=(pool,), catalogue=make_catalogue(types)))
    found = {m.labels[keys.CAPACITY_TYPE]: len(m.pods) for m in plan.machines}
    assert found == {keys.SPOT: 2, keys.ON_DEMAND: 2}


def test_sch_79_a_custom_key_with_values_is_a_domain_too() -> None:
    pool = make_pool(
        requirements=(*DEFAULT_REQUIREMENTS, Expression("rack", "In", ("r1", "r2", "r3")))
    )
    pods = make_pods(6, labels=WEB, spread=(make_spread("rack"),))
    plan = plan_for(make_snapshot(*pods, pools=(pool,)))
    assert {m.labels["rack"]: len(m.pods) for m in plan.machines} == {"r1": 2, "r2": 2, "r3": 2}


def test_scenario_69_host_anti_affinity_separates_replicas() -> None:
    """SCH-81: anti-affinity; SCH-41: hostname of a planned machine."""
    pods = make_pods(5, labels=WEB, anti_affinity=(make_term(keys.HOSTNAME),))
    assert pods_per_machine(plan_for(make_snapshot(*pods))) == [1] * 5


def test_sch_81_zone_anti_affinity_takes_all_zones_that_are_still_open() -> None:
    """The first pod's machine may be in any zone, so no zone is free for a second pod."""
    pods = make_pods(2, labels=WEB, anti_affinity=(make_term(keys.ZONE),))
    plan = plan_for(make_snapshot(*pods))
    assert pods_per_machine(plan) == [1]
    assert "pod anti-affinity" in next(iter(plan.unschedulable.values()))


def test_sch_82_a_running_pod_keeps_others_out() -> None:
    bound = make_bound_pod("db", "node-1", anti_affinity=(make_term(keys.ZONE),))
    plan = plan_for(make_snapshot(make_pod(labels=WEB), bound, nodes=(make_node(),)))
    assert plan.existing == {}
    [machine] = plan.machines
    assert machine.offering.zone != ZONES[0]


def test_sch_82_a_planned_pod_keeps_others_out() -> None:
    guard = make_pod("guard", cpu="1", anti_affinity=(make_term(keys.HOSTNAME),))
    plan = plan_for(make_snapshot(guard, make_pod("web", labels=WEB)))
    assert pods_per_machine(plan) == [1, 1]


def test_sch_80_affinity_follows_the_pods_it_names() -> None:
    bound = make_bound_pod("db", "node-1", labels={"app": "db"}, cpu="4")
    pod = make_pod(affinity=(make_term(keys.ZONE, "db"),))
    plan = plan_for(make_snapshot(pod, bound, nodes=(make_node(),)))
    assert pods_per_zone(plan) == {ZONES[0]: 1}


def test_sch_80_the_first_of_a_group_starts_a_domain_and_the_rest_follow() -> None:
    pods = make_pods(6, cpu="100", labels=WEB, affinity=(make_term(keys.ZONE),))
    plan = plan_for(make_snapshot(*pods))
    assert list(pods_per_zone(plan).values()) == [6]


def test_sch_80_affinity_to_nobody_is_unsatisfiable() -> None:
    plan = plan_for(make_snapshot(make_pod(affinity=(make_term(keys.ZONE, "nobody"),))))
    assert "pod affinity" in plan.unschedulable["uid-pod"]


def test_sch_80_affinity_to_a_pod_placed_later_is_tried_again() -> None:
    """The dependent pod is first in the queue and fails until the other is placed (SCH-31)."""
    follower = make_pod("follower", cpu="2", affinity=(make_term(keys.HOSTNAME, "leader"),))
    leader = make_pod("leader", cpu="1", labels={"app": "leader"})
    plan = plan_for(make_snapshot(follower, leader))
    assert pods_per_machine(plan) == [2]


def test_sch_22_a_preferred_anti_affinity_is_hard_at_first() -> None:
    pods = make_pods(3, labels=WEB, anti_affinity=(make_term(keys.HOSTNAME, weight=1),))
    assert pods_per_machine(plan_for(make_snapshot(*pods))) == [1, 1, 1]


def test_sch_83_a_term_over_all_namespaces_sees_every_pod() -> None:
    """An empty namespaceSelector."""
    everywhere = (make_term(keys.HOSTNAME, namespaces=()),)
    guard = make_pod("guard", cpu="1", anti_affinity=everywhere)
    web = make_pod("web", namespace="elsewhere", labels=WEB)
    assert pods_per_machine(plan_for(make_snapshot(guard, web))) == [1, 1]
    bound = make_bound_pod("db", "node-1", namespace="elsewhere", labels=WEB)
    follower = make_pod("f", affinity=(make_term(keys.ZONE, namespaces=()),), cpu="9")
    assert pods_per_zone(plan_for(make_snapshot(follower, bound, nodes=(make_node(),)))) == {
        ZONES[0]: 1
    }


def test_sch_83_namespaces_of_a_term_are_honoured() -> None:
    term = make_term(keys.HOSTNAME, namespaces=("elsewhere",))
    pods = make_pods(2, labels=WEB, anti_affinity=(term,))
    assert pods_per_machine(plan_for(make_snapshot(*pods))) == [2]
