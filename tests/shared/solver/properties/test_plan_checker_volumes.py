"""The plan checker finds wrong volumes, sizes and minValues; random plans have none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import InstanceType
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.namespaces import Namespace, NamespaceSelector
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.volumes import IMMEDIATE, VolumeClaim
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    make_bound_pod,
    make_catalogue,
    make_node,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_term,
    make_types,
)
from tests.support.planning.plan_checker import check_plan, violations
from tests.support.planning.snapshots import plan_for
from tests.support.planning.volumes import (
    EBS,
    make_claim,
    make_csi_node,
    make_storage_class,
    make_volume,
)

A, B, C = ZONES


def using(name: str, *claims: str, **changes: Any) -> Pod:
    return make_pod(name, volume_claims=claims or ("data",), **changes)


def sound(snapshot: Snapshot, **changes: Any) -> Plan:
    plan = plan_for(snapshot, **changes)
    check_plan(plan, snapshot)
    return plan


def fault(plan: Plan, snapshot: Snapshot) -> str:
    return "\n".join(violations(plan, snapshot))


def test_a_claim_must_be_reached_wherever_the_machine_may_be() -> None:
    """SCH-93: zones of volumes."""
    snapshot = make_snapshot(
        using("p"), claims=(make_claim("data", "pv"),), volumes=(make_volume("pv", A, B),)
    )
    plan = sound(snapshot)
    moved = replace(snapshot, volumes=(make_volume("pv", A),))
    assert "is not reached" in fault(plan, moved)


@pytest.mark.parametrize(
    "broken",
    [
        {"claims": ()},
        {"claims": (make_claim(terminating=True),)},
        {"claims": (make_claim(phase="Lost"),)},
        {"storage_classes": ()},
        {"storage_classes": (make_storage_class(binding_mode=IMMEDIATE),)},
        {"claims": (make_claim("data", "pv", bound_completed=False),)},
        {"claims": (make_claim("data", "pv"),)},
    ],
)
def test_a_claim_that_cannot_be_used_keeps_its_pod_waiting(broken: dict[str, Any]) -> None:
    """POD-06: volume claims that cannot be served."""
    snapshot = make_snapshot(
        using("p"), claims=(make_claim(),), storage_classes=(make_storage_class(),)
    )
    plan = sound(snapshot)
    assert "cannot be used" in fault(plan, replace(snapshot, **broken))
    assert sound(replace(snapshot, **broken)).machines == ()


def test_a_node_attaches_no_more_than_its_limit() -> None:
    """SCH-91: attach limits."""
    claims = tuple(make_claim(f"c{i}", f"pv-{i}") for i in range(3))
    volumes = tuple(make_volume(f"pv-{i}", A) for i in range(3))
    pods = [using(f"p{i}", f"c{i}") for i in range(3)]
    running = make_bound_pod("r", "node-1", volume_claims=("c0",))
    known: dict[str, Any] = {"claims": claims, "volumes": volumes, "nodes": (make_node(),)}
    snapshot = make_snapshot(running, *pods[1:], **known, csi_nodes=(make_csi_node(ebs=3),))
    plan = sound(snapshot)
    assert len(plan.existing["node-1"]) == 2
    tight = replace(snapshot, csi_nodes=(make_csi_node(ebs=2),))
    assert "3 volumes of ebs.csi.aws.com, it attaches 2" in fault(plan, tight)
    sound(tight)


def test_a_new_machine_attaches_no_more_than_its_types() -> None:
    """SCH-91: known before its CSINode is there."""
    claims = tuple(make_claim(f"c{i}") for i in range(3))
    known: dict[str, Any] = {"claims": claims, "storage_classes": (make_storage_class(),)}
    snapshot = make_snapshot(*(using(f"p{i}", f"c{i}") for i in range(3)), **known)
    plan = sound(snapshot)
    tight = replace(snapshot, catalogue=make_catalogue(attaching(2)))
    assert "3 volumes of ebs.csi.aws.com, it attaches 2" in fault(plan, tight)
    assert sorted(len(one.pods) for one in sound(tight).machines) == [1, 2]


def attaching(limit: int) -> tuple[InstanceType, ...]:
    """The usual types, which attach so many volumes; 0: nobody knows how many."""
    limits = {EBS: limit} if limit else {}
    return tuple(replace(kind, volume_limits=limits) for kind in make_types())


def test_pods_that_share_an_unbound_claim_are_in_one_zone() -> None:
    known: dict[str, Any] = {"storage_classes": (make_storage_class(),)}
    pods = [using(z, z, cpu="100", node_selector={keys.ZONE: z}) for z in (A, B)]
    snapshot = make_snapshot(*pods, **known, claims=(make_claim(A), make_claim(B)))
    plan = sound(snapshot)
    shared = tuple(replace(pod, volume_claims=(A,)) for pod in pods)
    assert "is shared between zones" in fault(plan, replace(snapshot, pods=shared))


def test_a_namespace_selector_keeps_pods_apart() -> None:
    """SCH-83: namespaces of pod affinity."""
    guard = make_pod("guard", anti_affinity=(make_term(keys.HOSTNAME),))
    web = make_pod("web", labels={"app": "web"}, namespace="red")
    red = (Namespace("n", "red", {"team": "red"}),)
    snapshot = make_snapshot(guard, web, namespaces=red)
    plan = sound(snapshot)
    term = make_term(keys.HOSTNAME, namespace_selector=NamespaceSelector({"team": "red"}))
    strict = replace(snapshot, pods=(replace(guard, anti_affinity=(term,)), web))
    assert "forbids uid-web" in fault(plan, strict)
    sound(strict)


def test_room_is_what_the_pool_s_own_settings_leave() -> None:
    """P-20: a plan for 110 pods per machine is wrong where the kubelet takes five."""
    snapshot = make_snapshot(*make_pods(8, cpu="10m"))
    plan = sound(snapshot)
    few = replace(snapshot, pools=(make_pool(kubelet={"maxPods": 5}),))
    assert "not enough pods" in fault(plan, few)
    assert [len(m.pods) for m in sound(few).machines] == [5, 3]


def choosy(least: int) -> Snapshot:
    wish = Expression(keys.INSTANCE_TYPE, "Exists", min_values=least)
    return make_snapshot(
        make_pod(cpu="60"), pools=(make_pool(requirements=(*DEFAULT_REQUIREMENTS, wish)),)
    )


def test_fewer_values_than_the_pool_asks_for_need_the_policy_and_are_said() -> None:
    """SCH-12: two types hold the pod, three are asked for."""
    plan = plan_for(choosy(3), min_values_policy="BestEffort")
    check_plan(plan, choosy(3), best_effort=True)
    assert "minValues wants more" in fault(plan, choosy(3))
    (machine,) = plan.machines
    silent = replace(plan, machines=(replace(machine, min_values_relaxed=False),))
    assert "minValues relaxed is False" in "".join(violations(silent, choosy(3), best_effort=True))
    check_plan(plan_for(choosy(2), min_values_policy="BestEffort"), choosy(2), best_effort=True)


@st.composite
def with_volumes(draw: st.DrawFn) -> Snapshot:
    """Pods over few claims, some bound in one or two zones, some waiting, some broken."""
    names = [f"c{i}" for i in range(draw(st.integers(1, 5)))]
    volumes = [
        make_volume(f"pv-{name}", *draw(st.sets(st.sampled_from(ZONES), min_size=1, max_size=2)))
        for name in names
    ]
    claims = [draw(_claims(name)) for name in names]
    pods = []
    for i in range(draw(st.integers(1, 7))):
        held = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        zone = draw(st.sampled_from(["", "", "", *ZONES]))
        cpu = draw(st.sampled_from(["100m", "3", "70"]))
        chosen = {keys.ZONE: zone} if zone else {}
        pods.append(make_pod(f"p{i}", cpu, volume_claims=tuple(held), node_selector=chosen))
    return make_snapshot(
        *pods,
        claims=tuple(claims),
        volumes=tuple(volumes),
        storage_classes=(make_storage_class(), make_storage_class("narrow", B, C)),
        nodes=(make_node(cpu="8"),) if draw(st.booleans()) else (),
        csi_nodes=(make_csi_node(ebs=draw(st.integers(1, 3))),),
        catalogue=make_catalogue(attaching(draw(st.integers(0, 3)))),
        pools=(make_pool(kubelet=draw(st.sampled_from([{}, {"maxPods": 3}]))),),
    )


def _claims(name: str) -> st.SearchStrategy[VolumeClaim]:
    return st.sampled_from(
        [
            make_claim(name, f"pv-{name}"),
            make_claim(name),
            make_claim(name),
            make_claim(name, storage_class="narrow"),
            make_claim(name, phase="Lost"),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(with_volumes())
def test_plans_with_volumes_are_sound(policy: str, snapshot: Snapshot) -> None:
    sound(snapshot, packing_policy=policy, effort=20)
