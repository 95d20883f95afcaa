"""Simulations show the room that is kept for pods to come, and gangs (GAT-02, GAT-04, SCH-114)."""

from __future__ import annotations

from typing import Any

from tests.shared.simulation.documents import (
    answer,
    ec2_node_class,
    instance_type,
    node_pool,
    pod,
    pod_spec,
)

BASE = (node_pool(), ec2_node_class(), instance_type("m5.xlarge", 4, "16Gi"))


def template(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec(**spec)},
    }


def buffer(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare"},
        "spec": spec,
    }


def request(count: int) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": "job"},
        "spec": {
            "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
            "podSets": [{"count": count, "podTemplateRef": {"name": "web"}}],
        },
    }


def test_a_buffer_is_planned_beside_the_pods() -> None:
    found = answer(
        *BASE, pod("real"), template(), buffer(podTemplateRef={"name": "web"}, replicas=2)
    )
    (machine,) = found["machines"]
    assert machine["pods"] == [
        "default/real", "default/capacity-buffer-spare-1", "default/capacity-buffer-spare-2",
    ]  # fmt: skip
    assert found["faults"] == []


def test_a_share_of_a_deployment_is_planned_beside_its_pods() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "template": {"spec": pod_spec()}},
    }
    found = answer(
        *BASE, deployment, buffer(scalableRef={"kind": "Deployment", "name": "web"}, percentage=50)
    )
    assert sum(len(machine["pods"]) for machine in found["machines"]) == 5


def test_a_reference_to_nothing_is_a_fault_of_the_buffer() -> None:
    found = answer(*BASE, pod("real"), buffer(podTemplateRef={"name": "gone"}, replicas=2))
    (fault,) = found["faults"]
    assert (fault["kind"], fault["name"], fault["field"]) == (
        "CapacityBuffer",
        "default/spare",
        "spec",
    )
    assert "PodTemplate default/gone does not exist" in fault["message"]


def test_an_atomic_request_is_planned_whole_or_its_pods_say_why_not() -> None:
    whole = answer(*BASE, template(), request(2))
    assert sum(len(machine["pods"]) for machine in whole["machines"]) == 2
    none = answer(*BASE, template(cpu="64"), request(2))
    assert none["machines"] == []
    reasons = {one["reason"] for one in none["unschedulable"]}
    assert all("2 of its 2 pods find no place, so none is placed" in one for one in reasons)


def test_a_gang_is_planned_whole_or_not() -> None:
    meta = {"annotations": {"dovetail.sh/gang": "train", "dovetail.sh/gang-size": "2"}}
    found = answer(*BASE, pod("a", meta=meta), pod("b", meta=meta, cpu="64"))
    assert found["machines"] == []
    assert [one["pod"] for one in found["unschedulable"]] == ["default/a", "default/b"]
