"""Pods that ask for devices as for an extended resource, which a DeviceClass answers (DRA-06)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.domain.devices.extended import IMPLICIT
from shared.domain.devices.records import DeviceClass
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve
from tests.shared.solver.devices.test_claims import CATALOGUE, loads, reason
from tests.support.planning.builders import make_bound_pod, make_node, make_pod, make_snapshot
from tests.support.planning.devices import (
    GPU,
    GPU_CLASS,
    allocated,
    claiming_pod,
    gpus,
    make_claim_template,
    make_resource_claim,
    make_slice,
    plan_devices,
    product_is,
    spec_of,
    want,
)

RESOURCE = "nvidia.com/gpu"
ANSWERING = replace(GPU_CLASS, extended_resource=RESOURCE)
NODE = make_node("node-1", cpu="48", memory="192Gi")


def asking(name: str = "pod", count: int = 1, resource: str = RESOURCE, **fields: Any) -> Pod:
    pod = make_pod(name, **fields)
    return replace(pod, requests={**pod.requests, resource: count})


def cluster(
    *pods: Pod, classes: tuple[DeviceClass, ...] = (ANSWERING,), **more: object
) -> Snapshot:
    fields = {"catalogue": CATALOGUE, "device_classes": classes, **more}
    return make_snapshot(*pods, **fields)


def names(plan: Plan) -> set[str]:
    """Resources that the planned machines are asked for."""
    return {name for one in plan.machines for name in one.requests}


@pytest.mark.parametrize("resource", [RESOURCE, f"{IMPLICIT}{GPU}"])
def test_a_machine_with_the_devices_of_the_class_is_bought(resource: str) -> None:
    """The machine is not asked for the resource: no node of the cluster would ever report it."""
    plan = plan_devices(cluster(asking(count=2, resource=resource)))
    assert loads(plan) == [("g6.12xlarge", 1)]
    assert resource not in names(plan)


def test_the_selectors_of_the_class_hold() -> None:
    narrow = replace(ANSWERING, selectors=(*ANSWERING.selectors, product_is("H100")))
    assert loads(plan_devices(cluster(asking(), classes=(narrow,)))) == [("p5.48xlarge", 1)]


def test_claims_and_extended_resources_share_the_devices() -> None:
    template = make_claim_template(spec_of(want()))
    pods = (asking("a", count=3), claiming_pod("b"), claiming_pod("c"))
    plan = plan_devices(cluster(*pods, claim_templates=(template,)))
    assert not plan.unschedulable
    counts = {"g6.12xlarge": 4, "p5.48xlarge": 8, "g6.xlarge": 1}
    devices = {pods[0].uid: 3}
    for machine in plan.machines:
        taken = sum(devices.get(uid, 1) for uid in machine.pods)
        assert all(taken <= counts[name] for name in machine.instance_types)


def test_a_node_with_free_devices_takes_the_pod_though_it_does_not_report_the_resource() -> None:
    plan = plan_devices(
        cluster(asking(), nodes=(NODE,), resource_slices=(make_slice("node-1", gpus(2)),))
    )
    assert plan.machines == ()
    assert plan.existing == {"node-1": ("uid-pod",)}


def test_what_kube_scheduler_claimed_for_a_running_pod_is_taken_once() -> None:
    """The claim that it makes for the pod holds the device; the pod's request is no second one."""
    running = asking("running")
    running = replace(running, node_name="node-1", unschedulable=False, phase="Running")
    held = allocated("node-1", "gpu-0")
    claim = make_resource_claim(spec_of(want()), "made", reserved_for=(running.uid,), **held)
    fields: dict[str, Any] = {"nodes": (NODE,), "resource_slices": (make_slice("node-1", gpus(2)),)}
    one = cluster(running, asking("new"), resource_claims=(claim,), **fields)
    assert plan_devices(one).existing == {"node-1": ("uid-new",)}
    two = cluster(running, asking("new", count=2), resource_claims=(claim,), **fields)
    assert loads(plan_devices(two)) == [("g6.12xlarge", 1)]


def test_a_bound_pod_whose_claim_is_not_seen_yet_holds_its_devices() -> None:
    running = replace(asking("running"), node_name="node-1", unschedulable=False, phase="Running")
    snapshot = cluster(
        running, asking("new"), nodes=(NODE,), resource_slices=(make_slice("node-1", gpus(1)),)
    )
    assert loads(plan_devices(snapshot)) == [("g6.xlarge", 1)]


def test_a_resource_that_a_node_reports_belongs_to_a_device_plugin() -> None:
    plugin = make_node("plugin", cpu="48", memory="192Gi")
    plugin = replace(plugin, allocatable={**plugin.allocatable, RESOURCE: 1})
    plan = plan_devices(cluster(asking("a"), nodes=(plugin,)))
    assert plan.existing == {"plugin": ("uid-a",)}


def test_of_two_classes_for_one_resource_the_newer_counts() -> None:
    old = replace(ANSWERING, name="old", uid="o", created_at=1.0, selectors=(product_is("L4"),))
    new = replace(ANSWERING, name="new", uid="n", created_at=2.0, selectors=(product_is("H100"),))
    for classes in ((old, new), (new, old)):
        assert loads(plan_devices(cluster(asking(), classes=classes))) == [("p5.48xlarge", 1)]


def test_a_verdict_names_the_resource() -> None:
    text = reason(plan_devices(cluster(asking(count=9))))
    assert f'extended resources, request "{RESOURCE}": asks for 9 devices of one node' in text


def test_without_the_setting_nothing_changes() -> None:
    """The resource is then one of the instance type, as with a device plugin."""
    plan = solve(cluster(asking()), now=0.0, settings=SolverSettings())
    assert plan.unschedulable
    bound = make_bound_pod("b", "node-1")
    assert not solve(cluster(bound, nodes=(NODE,)), now=0.0, settings=SolverSettings()).machines
