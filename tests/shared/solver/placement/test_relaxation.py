"""Which preferences are dropped, and in which order (SCH-20..SCH-27)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.workloads.pods import Pod, PreferredTerm
from shared.solver.placement.relaxation import TOLERATE_PREFERRED, dropped, pod_requirements, relax
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    make_bound_pod,
    make_node,
    make_pod,
    make_pool,
    make_snapshot,
    make_spread,
    make_term,
)
from tests.support.planning.snapshots import plan_for


def zone_in(*zones: str) -> tuple[Expression, ...]:
    return (Expression(keys.ZONE, "In", zones),)


def everything_preferred() -> Pod:
    return make_pod(
        required_terms=(zone_in("x"), zone_in(*ZONES)),
        affinity=(make_term("a", weight=1), make_term("b", weight=9), make_term("c")),
        anti_affinity=(make_term("d", weight=5),),
        preferred_terms=(PreferredTerm(1, zone_in("e")), PreferredTerm(7, zone_in("f"))),
        spread=(make_spread("g"), make_spread("h", hard=False)),
    )


def steps(pod: Pod) -> list[Pod]:
    found: list[Pod] = []
    current: Pod | None = pod
    while current is not None and len(found) < 20:
        found.append(current)
        current = relax(current, tolerate_preferred=True)
    return found


def test_sch_20_requirements_are_selector_first_term_and_heaviest_preference() -> None:
    pod = make_pod(
        node_selector={"team": "red"},
        required_terms=(zone_in("a", "b"), zone_in("z")),
        preferred_terms=(PreferredTerm(1, zone_in("a")), PreferredTerm(7, zone_in("b"))),
    )
    assert pod_requirements(pod).labels() == {"team": "red", keys.ZONE: "b"}


def test_sch_23_preferences_go_one_by_one_in_order() -> None:
    found = steps(everything_preferred())
    assert [len(p.required_terms) for p in found] == [2] + [1] * 8
    assert ["".join(t.topology_key for t in p.affinity) for p in found[1:5]] == [
        "abc", "ac", "c", "c",
    ]  # fmt: skip
    assert [len(p.anti_affinity) for p in found[3:5]] == [1, 0]
    assert [[t.weight for t in p.preferred_terms] for p in found[4:7]] == [[1, 7], [1], []]
    assert [len(p.spread) for p in found[6:8]] == [2, 1]
    assert found[8].tolerations == (TOLERATE_PREFERRED,)
    assert len(found) == 9


def test_sch_21_the_last_required_term_stays() -> None:
    assert steps(everything_preferred())[-1].required_terms == (zone_in(*ZONES),)


def test_sch_23_without_a_preferred_taint_nothing_more_is_tolerated() -> None:
    assert relax(make_pod(), tolerate_preferred=False) is None


def test_sch_25_the_original_pod_is_untouched() -> None:
    pod = everything_preferred()
    steps(pod)
    assert pod == everything_preferred()


def test_scenario_68_the_third_required_term_works() -> None:
    terms = (zone_in("mars"), zone_in("venus"), zone_in(ZONES[2]))
    plan = plan_for(make_snapshot(make_pod(required_terms=terms)))
    assert plan.machines[0].labels[keys.ZONE] == ZONES[2]


def test_sch_20_the_heaviest_preference_is_kept_when_it_can_be() -> None:
    preferred = (PreferredTerm(1, zone_in(ZONES[0])), PreferredTerm(50, zone_in(ZONES[1])))
    plan = plan_for(make_snapshot(make_pod(preferred_terms=preferred)))
    assert plan.machines[0].labels[keys.ZONE] == ZONES[1]


def test_sch_23_an_impossible_preference_is_given_up() -> None:
    preferred = (PreferredTerm(1, zone_in(ZONES[0])), PreferredTerm(50, zone_in("mars")))
    plan = plan_for(make_snapshot(make_pod(preferred_terms=preferred)))
    assert plan.machines[0].labels[keys.ZONE] == ZONES[0]


TEAM = "example.com/team"


def team_pods() -> tuple[Pod, Pod, Pod]:
    """Of team a, each with one more rule: a preference for b, b as well, or b as one of two choices."""
    of_b, of_a = ((Expression(TEAM, "In", (team,)),) for team in "ba")
    selector = {TEAM: "a"}
    return (
        make_pod("prefers", preferred_terms=(PreferredTerm(1, of_b),), node_selector=selector),
        make_pod("contradicts", required_terms=(of_b,), node_selector=selector),
        make_pod("chooses", required_terms=(of_b, of_a), node_selector=selector),
    )


@pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost"])
def test_rules_that_contradict_each_other_are_not_met_by_a_missing_label(policy: str) -> None:
    """As kube-scheduler judges: it would never bind such a pod to a machine of the heavier pool, or to the node."""
    team = make_pool("team", requirements=(*DEFAULT_REQUIREMENTS, Expression(TEAM, "In", ("a",))))
    pools = (make_pool(weight=9), team)
    snapshot = make_snapshot(*team_pods(), pools=pools, nodes=(make_node("n0"),))
    plan = plan_for(snapshot, packing_policy=policy)
    assert {machine.pool for machine in plan.machines} == {"team"}
    assert list(plan.unschedulable) == ["uid-contradicts"]
    assert (
        f"the pod's rules for {TEAM} contradict each other" in plan.unschedulable["uid-contradicts"]
    )


def test_sch_26_the_ignore_policy_does_not_look_at_preferences() -> None:
    preferred = (PreferredTerm(50, zone_in(ZONES[1])),)
    snapshot = make_snapshot(make_pod(preferred_terms=preferred))
    [machine] = plan_for(snapshot, preference_policy="Ignore").machines
    assert keys.ZONE not in machine.labels


def test_sch_24_each_step_is_told_in_the_pods_own_words() -> None:
    found = steps(everything_preferred())
    told = [dropped(before, after) for before, after in pairwise(found)]
    assert [text.partition("=")[0] for text in told] == [
        "removing: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]",
        "removing: spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1]",
        "removing: spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]",
        "removing: spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]",
        "removing: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[1]",
        "removing: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]",
        "removing: spec.topologySpreadConstraints[1]",
        "adding: toleration for PreferNoSchedule taints",
    ]
    assert '"topology_key":"b"' in told[1]


def test_sch_24_a_plan_says_what_its_pods_gave_up() -> None:
    far = (PreferredTerm(1, zone_in("mars")),)
    pods = [make_pod(f"p{n}", preferred_terms=far) for n in range(3)]
    plan = plan_for(make_snapshot(*pods))
    assert plan.unschedulable == {}
    (told,) = plan.given_up
    assert (told.uid, told.pods) == (pods[0].uid, 3)
    assert "nodeAffinity.preferred" in told.reason
    assert "mars" in told.reason


@pytest.mark.parametrize(("there", "placed"), [(0, True), (1, False)])
def test_nodes_of_a_term_that_is_given_up_count_for_spread(there: int, placed: bool) -> None:
    """SCH-76: kube-scheduler counts by the spec. The zone of the first term has a full node and no more room."""
    a, b = ZONES[:2]
    terms = tuple((Expression(keys.ZONE, "In", (zone,)),) for zone in (a, b))
    pod = make_pod(
        "p", cpu="1", labels={"app": "web"}, required_terms=terms, spread=(make_spread(keys.ZONE),)
    )
    nodes = [make_node(f"n{i}", labels={keys.ZONE: a}, cpu="1") for i in range(there)]
    others = [make_bound_pod(f"o{i}", f"n{i}", cpu="1") for i in range(there)]
    already = [
        make_bound_pod(f"w{i}", "in-b", cpu="1", labels={"app": "web"}) for i in range(there)
    ]
    nodes.append(make_node("in-b", labels={keys.ZONE: b}, cpu="4"))
    plan = plan_for(make_snapshot(pod, *others, *already, nodes=tuple(nodes), pools=()))
    assert bool(plan.existing.get("in-b")) is placed
