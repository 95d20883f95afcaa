"""Pods with volumes go where their volumes are, and nowhere else (POD-06, SCH-93, SCH-95)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, PreferredTerm
from shared.domain.workloads.volumes import IMMEDIATE, Volume, VolumeClaim
from shared.solver.plan import Plan
from shared.solver.volumes.reach import MOST_ALTERNATIVES
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_catalogue,
    make_machine,
    make_node,
    make_pod,
    make_pool,
    make_snapshot,
    make_spread,
    make_term,
    make_type,
)
from tests.support.planning.snapshots import (
    check_plan,
    plan_for,
    pods_per_machine,
    requirement_values,
)
from tests.support.planning.volumes import (
    in_zones,
    make_claim,
    make_csi_node,
    make_storage_class,
    make_volume,
)

A, B, C = ZONES
WEB: dict[str, Any] = {"labels": {"app": "web"}}


def with_volumes(name: str = "pod", *claims: str, **changes: Any) -> Pod:
    return make_pod(name, volume_claims=claims or ("data",), **changes)


def stateful(name: str, zone: str, **changes: Any) -> tuple[Pod, VolumeClaim, Volume]:
    """A pod with a bound claim of its own."""
    claim = make_claim(f"data-{name}", f"pv-{name}")
    return with_volumes(name, claim.name, **changes), claim, make_volume(f"pv-{name}", zone)


def snapshot_of(*sets: tuple[Pod, VolumeClaim, Volume], **changes: Any) -> Snapshot:
    known = {"claims": tuple(s[1] for s in sets), "volumes": tuple(s[2] for s in sets)}
    return make_snapshot(*(s[0] for s in sets), **{**known, **changes})


def zones_of(plan: Plan) -> list[list[str]]:
    return [requirement_values(machine, keys.ZONE) for machine in plan.machines]


def test_scenario_71_a_bound_volume_decides_the_zone_even_if_another_is_cheaper() -> None:
    """SCH-93: zones of volumes."""
    types = (make_type("m5.large", zones=(A, B)), make_type("m5.cheap", price=1_000, zones=(A,)))
    plan = plan_for(snapshot_of(stateful("db", B), catalogue=make_catalogue(types)))
    assert [m.offering.zone for m in plan.machines] == [B]
    assert [m.instance_types for m in plan.machines] == [("m5.large",)]
    assert zones_of(plan) == [[B]]


@pytest.mark.parametrize("bound", [False, True])
def test_pods_that_exclude_each_other_by_zone_try_the_zones_of_their_volumes_one_by_one(
    bound: bool,
) -> None:
    """A machine that may be in either zone would exclude both zones for the second pod (SCH-93)."""
    apart = {**WEB, "anti_affinity": (make_term(keys.ZONE),)}
    names = ("db-0", "db-1")
    snapshot = make_snapshot(
        *(with_volumes(name, f"data-{name}", **apart) for name in names),
        claims=tuple(make_claim(f"data-{name}", f"pv-{name}" * bound) for name in names),
        volumes=tuple(make_volume(f"pv-{name}", A, B) for name in names),
        storage_classes=(make_storage_class("gp3", A, B),),
    )
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    assert pods_per_machine(plan) == [1, 1]
    assert sorted(zones_of(plan)) == [[A], [B]]


def test_pods_of_one_stateful_set_share_machines_per_zone() -> None:
    sets = [stateful(f"db-{i}", zone) for i, zone in enumerate((A, B, A, B, A))]
    plan = plan_for(snapshot_of(*sets))
    assert pods_per_machine(plan) == [3, 2]
    assert sorted(zones_of(plan)) == [[A], [B]]


@pytest.mark.parametrize(("zones", "expected"), [((), []), ((B, C), [B, C])])
def test_a_claim_that_waits_for_its_pod_goes_where_its_class_may_make_volumes(
    zones: tuple[str, ...], expected: list[str]
) -> None:
    """SCH-93: allowedTopologies, or anywhere."""
    snapshot = make_snapshot(
        with_volumes(), claims=(make_claim(),), storage_classes=(make_storage_class("gp3", *zones),)
    )
    assert zones_of(plan_for(snapshot)) == [expected]


def test_terms_of_a_volume_are_alternatives_and_all_volumes_must_agree() -> None:
    """SCH-93: the cross product over the pod's volumes."""
    claims = (make_claim("one", "pv-one"), make_claim("two", "pv-two"))
    volumes = (make_volume("pv-one", A, B), make_volume("pv-two", B, C))
    snapshot = make_snapshot(with_volumes("pod", "one", "two"), claims=claims, volumes=volumes)
    assert zones_of(plan_for(snapshot)) == [[B]]


@pytest.mark.parametrize(
    ("alternatives", "expected"),
    [((in_zones(A), in_zones(C)), [A, C]), ((in_zones(A), ()), [])],
    ids=["either zone", "one of them is anywhere"],
)
def test_a_choice_of_zones_stays_open_until_the_launch(
    alternatives: tuple[tuple[Expression, ...], ...], expected: list[str]
) -> None:
    """The cheapest offering in these zones is chosen (SCH-35)."""
    volume = make_volume("pv", alternatives=alternatives)
    claims = (make_claim("data", "pv"),)
    snapshot = make_snapshot(with_volumes(), claims=claims, volumes=(volume,))
    assert zones_of(plan_for(snapshot)) == [expected]


def test_alternatives_that_cannot_be_written_as_one_are_tried_in_order() -> None:
    arm = Expression(keys.ARCH, "In", ("arm64",))
    amd = Expression(keys.ARCH, "In", ("amd64",))
    volume = make_volume("pv", alternatives=((arm, *in_zones(A)), (amd, *in_zones(C))))
    changes: dict[str, Any] = {"claims": (make_claim("data", "pv"),), "volumes": (volume,)}
    plan = plan_for(make_snapshot(with_volumes(), **changes))
    assert zones_of(plan) == [[C]]
    plan = plan_for(make_snapshot(with_volumes(node_selector={keys.ZONE: A}), **changes))
    assert "its volumes need" in plan.unschedulable["uid-pod"]


def test_a_volume_that_is_reached_from_anywhere_asks_for_nothing() -> None:
    claim, volume = make_claim("data", "pv"), make_volume("pv", driver="efs.csi.aws.com")
    plain = plan_for(make_snapshot(make_pod()))
    plan = plan_for(make_snapshot(with_volumes(), claims=(claim,), volumes=(volume,)))
    assert plan.machines[0].requirements == plain.machines[0].requirements


def test_preferences_are_given_up_and_volumes_never() -> None:
    """Relaxation does not drop the zone of the volumes (SCH-23)."""
    wish = (PreferredTerm(10, in_zones(A)), PreferredTerm(5, (Expression("odd", "Exists"),)))
    plan = plan_for(snapshot_of(stateful("db", B, preferred_terms=wish)))
    assert zones_of(plan) == [[B]]


def test_a_preference_elsewhere_makes_room_for_the_next_one() -> None:
    wish = (
        PreferredTerm(10, in_zones(A)),
        PreferredTerm(5, (Expression(keys.INSTANCE_TYPE, "In", ("m5.x008",)),)),
    )
    plan = plan_for(snapshot_of(stateful("db", B, preferred_terms=wish)))
    assert [m.instance_types for m in plan.machines] == [("m5.x008",)]


def test_a_preference_that_excludes_what_is_required_is_left_out() -> None:
    rules = {"preferred_terms": (PreferredTerm(1, in_zones(A)),), "required_terms": (in_zones(C),)}
    pod, claim, _ = stateful("db", A, **rules)
    plan = plan_for(snapshot_of((pod, claim, make_volume("pv-db", A, C))))
    assert zones_of(plan) == [[C]]


def test_required_terms_elsewhere_are_passed_over() -> None:
    """SCH-21: required terms are alternatives."""
    terms = (in_zones(A), in_zones(B, C))
    plan = plan_for(snapshot_of(stateful("db", B, required_terms=terms)))
    assert zones_of(plan) == [[B]]


@pytest.mark.parametrize(
    "rules", [{"node_selector": {keys.ZONE: A}}, {"required_terms": (in_zones(A), in_zones(C))}]
)
def test_a_pod_that_excludes_its_own_volume_hears_of_it(rules: dict[str, Any]) -> None:
    """The pod does not go to a node without a zone either."""
    node = make_node(labels={keys.ZONE: ""})
    unlabelled = replace(node, labels={k: v for k, v in node.labels.items() if k != keys.ZONE})
    plan = plan_for(snapshot_of(stateful("db", B, **rules), nodes=(unlabelled,)))
    assert f"{keys.ZONE} In [{B}]" in plan.unschedulable["uid-db"]
    assert "node selector and affinity exclude" in plan.unschedulable["uid-db"]


def test_a_verdict_tells_the_zone_that_the_pod_itself_never_asked_for() -> None:
    pool = make_pool(requirements=(*make_pool().requirements, *in_zones(A)))
    plan = plan_for(snapshot_of(stateful("db", B), pools=(pool,)))
    assert plan.unschedulable["uid-db"].endswith(f"; its volumes need ({keys.ZONE} In [{B}])")


def test_volumes_in_two_zones_are_a_verdict() -> None:
    claims = (make_claim("one", "pv-one"), make_claim("two", "pv-two"))
    volumes = (make_volume("pv-one", A), make_volume("pv-two", B))
    snapshot = make_snapshot(with_volumes("pod", "one", "two"), claims=claims, volumes=volumes)
    verdict = plan_for(snapshot).unschedulable["uid-pod"]
    assert 'claim "default/two"' in verdict
    assert "move one of them" in verdict


def test_too_many_combinations_are_a_verdict() -> None:
    """The number of alternatives is bounded."""
    terms = tuple(
        (Expression(keys.INSTANCE_TYPE, "In", (f"t{i}",)), Expression(keys.ZONE, "In", (f"z{i}",)))
        for i in range(MOST_ALTERNATIVES + 1)
    )
    changes: dict[str, Any] = {"claims": (make_claim("data", "pv"),)}
    volume = make_volume("pv", alternatives=terms)
    plan = plan_for(make_snapshot(with_volumes(), volumes=(volume,), **changes))
    assert "combinations" in plan.unschedulable["uid-pod"]
    volume = make_volume("pv", alternatives=terms[:-1])
    plan = plan_for(make_snapshot(with_volumes(), volumes=(volume,), **changes))
    assert "combinations" not in plan.unschedulable["uid-pod"]


PROBLEMS: dict[str, tuple[dict[str, Any], str]] = {
    "missing claim": ({"claims": ()}, "does not exist"),
    "claim of another namespace": ({"claims": (make_claim(namespace="x"),)}, "does not exist"),
    "deleted claim": ({"claims": (make_claim(terminating=True),)}, "being deleted"),
    "lost claim": ({"claims": (make_claim("data", "pv", phase="Lost"),)}, 'volume "pv" is lost'),
    "missing volume": ({"claims": (make_claim("data", "pv"),)}, 'volume "pv" does not exist'),
    "deleted volume": (
        {
            "claims": (make_claim("data", "pv"),),
            "volumes": (make_volume("pv", A, terminating=True),),
        },
        'volume "pv" is being deleted',
    ),
    "half bound": (
        {
            "claims": (make_claim("data", "pv", bound_completed=False),),
            "volumes": (make_volume("pv", A),),
        },
        "bind-completed",
    ),
    "no class": ({"claims": (make_claim(storage_class=None),)}, "set storageClassName"),
    "class on purpose empty": ({"claims": (make_claim(storage_class=""),)}, "create a volume"),
    "missing class": ({"storage_classes": ()}, 'storage class "gp3" does not exist'),
    "immediate": (
        {"storage_classes": (make_storage_class(binding_mode=IMMEDIATE),)},
        "WaitForFirstConsumer",
    ),
    "odd topology": (
        {
            "storage_classes": (
                make_storage_class(
                    allowed_topologies=((Expression("eks.amazonaws.com/compute-type", "In", ("auto",)),),)
                ),
            )
        },
        "eks.amazonaws.com/compute-type",
    ),
    "unsupported provisioner": (
        {"storage_classes": (make_storage_class(provisioner="ebs.csi.eks.amazonaws.com"),)},
        "EKS Auto Mode",
    ),
    "unsupported driver of a volume": (
        {
            "claims": (make_claim("data", "pv"),),
            "volumes": (make_volume("pv", A, driver="ebs.csi.eks.amazonaws.com"),),
        },
        "EKS Auto Mode",
    ),
    "unreadable term": (
        {
            "claims": (make_claim("data", "pv"),),
            "volumes": (make_volume("pv", alternatives=((Expression("x", "Gt", ("y",)),),)),),
        },
        "non-negative integer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(PROBLEMS))
def test_pod_06_a_claim_with_a_problem_is_a_verdict_that_names_it_and_the_others_go_on(
    case: str,
) -> None:
    changes, expected = PROBLEMS[case]
    sound: dict[str, Any] = {"claims": (make_claim(),), "storage_classes": (make_storage_class(),)}
    snapshot = make_snapshot(with_volumes(), make_pod("other"), **{**sound, **changes})
    plan = plan_for(snapshot)
    assert [m.pods for m in plan.machines] == [("uid-other",)]
    assert plan.unschedulable.keys() == {"uid-pod"}
    assert 'persistent volume claim "default/data"' in plan.unschedulable["uid-pod"]
    assert expected in plan.unschedulable["uid-pod"]


def test_a_topology_label_that_a_pool_gives_its_nodes_is_supported() -> None:
    rack = Expression("example.com/rack", "In", ("r1",))
    snapshot = make_snapshot(
        with_volumes(),
        claims=(make_claim(),),
        storage_classes=(make_storage_class(allowed_topologies=((rack,),)),),
        pools=(make_pool("plain", weight=9), make_pool("racked", labels={rack.key: "r1"})),
    )
    assert [m.pool for m in plan_for(snapshot).machines] == ["racked"]


def test_sch_95_the_zone_of_a_volume_does_not_make_the_spread_smaller() -> None:
    """kube-scheduler counts all zones, so a second pod in the volume's zone is refused."""
    rule = (make_spread(keys.ZONE),)
    nodes = tuple(make_node(f"node-{z}", labels={keys.ZONE: z}, cpu="1") for z in ZONES)
    running = make_bound_pod("web-0", f"node-{B}", cpu="900m", **WEB)
    waiting, claim, volume = stateful("web-1", B, spread=rule, **WEB)
    snapshot = snapshot_of((waiting, claim, volume), nodes=nodes)
    plan = plan_for(replace(snapshot, pods=(waiting, running)))
    assert "topology spread" in plan.unschedulable["uid-web-1"]
    free = make_pod("web-2", spread=rule, cpu="900m", **WEB)
    plan = plan_for(replace(snapshot, pods=(waiting, running, free)))
    assert "uid-web-2" not in plan.unschedulable


def test_sch_95_pods_that_are_spread_find_the_zones_of_their_volumes() -> None:
    rule = (make_spread(keys.ZONE),)
    sets = [stateful(f"web-{i}", zone, spread=rule, **WEB) for i, zone in enumerate(ZONES)]
    assert sorted(zones_of(plan_for(snapshot_of(*sets)))) == [[A], [B], [C]]


def test_an_existing_node_takes_a_pod_only_in_its_volume_s_zone() -> None:
    """SCH-50: order of checks for a node."""
    nodes = (make_node("node-a"), make_node("node-b", labels={keys.ZONE: B}))
    plan = plan_for(snapshot_of(stateful("db", B), nodes=nodes))
    assert plan.existing == {"node-b": ("uid-db",)}


def test_a_machine_whose_zone_is_open_waits_for_no_volume() -> None:
    """It may come up elsewhere."""
    plan = plan_for(snapshot_of(stateful("db", B), machines=(make_machine(),)))
    assert plan.existing == {}
    assert zones_of(plan) == [[B]]


def test_pod_09_a_pod_that_moves_stays_with_its_volume() -> None:
    pod, claim, volume = stateful("db", B)
    running = replace(pod, node_name="old", unschedulable=False, phase="Running")
    old = make_node("old", labels={keys.ZONE: B}, terminating=True)
    plan = plan_for(snapshot_of((running, claim, volume), nodes=(old,)), "uid-db")
    assert zones_of(plan) == [[B]]


places = st.lists(st.sets(st.sampled_from(ZONES), min_size=1), max_size=3)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(places, st.booleans(), st.sampled_from(["", A, B])), max_size=6),
    st.integers(0, 3),
    st.integers(0, 4),
)
def test_a_planned_pod_sits_where_all_its_volumes_can_be_reached(
    shapes: list[tuple[list[set[str]], bool, str]], nodes: int, limit: int
) -> None:
    pods, claims, volumes, allowed = [], [], [], {}
    for i, (parts, spread, selector) in enumerate(shapes):
        names = [f"c{i}-{j}" for j in range(len(parts))]
        claims += [make_claim(name, f"pv-{name}") for name in names]
        volumes += [make_volume(f"pv-{n}", *sorted(z)) for n, z in zip(names, parts, strict=True)]
        rules: dict[str, Any] = {"spread": (make_spread(keys.ZONE, hard=False),)} if spread else {}
        chosen = {keys.ZONE: selector} if selector else {}
        pod = make_pod(f"p{i}", node_selector=chosen, volume_claims=tuple(names), **WEB, **rules)
        pods.append(pod)
        allowed[pod.uid] = set(ZONES).intersection(*parts, {selector} if selector else ZONES)
    labels = [{keys.ZONE: ZONES[i]} for i in range(nodes)]
    snapshot = make_snapshot(
        *pods,
        claims=tuple(claims),
        volumes=tuple(volumes),
        nodes=tuple(make_node(f"n{i}", labels=one) for i, one in enumerate(labels)),
        csi_nodes=tuple(make_csi_node(f"n{i}", ebs=limit) for i in range(nodes)),
    )
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    assert plan == plan_for(replace(snapshot, pods=snapshot.pods[::-1], claims=tuple(claims[::-1])))
    assert plan.unschedulable.keys() == {uid for uid, zones in allowed.items() if not zones}
    of_pod = {pod.uid: pod.volume_claims for pod in pods}
    for machine in plan.machines:
        zones = set(requirement_values(machine, keys.ZONE)) or set(ZONES)
        assert all(zones <= allowed[uid] for uid in machine.pods)
    for i in range(nodes):
        placed = plan.existing.get(f"n{i}", ())
        assert all(ZONES[i] in allowed[uid] for uid in placed)
        assert sum(len(of_pod[uid]) for uid in placed) <= limit
