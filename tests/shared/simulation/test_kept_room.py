"""Simulations show the room that is kept for pods to come, and gangs (GAT-02, GAT-04, SCH-114, SCH-115)."""

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


ZONE = "topology.kubernetes.io/zone"


def zones(found: dict[str, Any]) -> set[tuple[str, ...]]:
    return {
        tuple(one["values"])
        for machine in found["machines"]
        for one in machine["requirements"]
        if one["key"] == ZONE
    }


def test_a_gang_is_planned_within_one_zone_and_says_so_when_no_zone_has_room() -> None:
    """Two pods on two machines; with a limit of one machine there is no zone for both."""
    told = {"dovetail.sh/gang": "train", "dovetail.sh/gang-topology": ZONE}
    pods = [pod(name, meta={"annotations": told}, cpu="3") for name in ("a", "b")]
    found = answer(*BASE, *pods)
    (chosen,) = zones(found)
    assert len(found["machines"]) == 2
    assert len(chosen) == 1
    small = node_pool()
    small["spec"]["limits"] = {"cpu": "4"}
    found = answer(small, *BASE[1:], *pods)
    assert found["machines"] == []
    assert f'values of "{ZONE}" has room for all its pods' in found["unschedulable"][0]["reason"]


def test_a_request_of_kueue_is_planned_within_the_topology_of_its_template() -> None:
    asked = template(cpu="3")
    asked["template"]["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-required-topology": ZONE}
    found = answer(*BASE, asked, request(2))
    assert len(found["machines"]) == 2
    (chosen,) = zones(found)
    assert len(chosen) == 1
