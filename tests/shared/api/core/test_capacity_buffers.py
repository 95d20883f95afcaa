"""CapacityBuffers and pod templates as they are written, and as they are read (GAT-02)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.core.autoscaling.capacity_buffers import parse_capacity_buffer, status_object
from shared.api.core.pod_templates import parse_pod_template
from shared.api.registry import check, is_ours, warnings

META = {
    "name": "spare",
    "namespace": "default",
    "uid": "u",
    "generation": 4,
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
POD = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]},
}
TEMPLATE = {"podTemplateRef": {"name": "web"}}
WORKLOAD = {"scalableRef": {"kind": "Deployment", "name": "web"}}


def buffer(status: Any = None, **spec: Any) -> dict[str, Any]:
    version = "autoscaling.x-k8s.io/v1beta1"
    return {
        "apiVersion": version,
        "kind": "CapacityBuffer",
        "metadata": META,
        "spec": spec,
        **({} if status is None else {"status": status}),
    }


def test_a_buffer_of_a_template() -> None:
    found = parse_capacity_buffer(buffer(**TEMPLATE, replicas=3, limits={"cpu": "2"})).record
    assert found is not None
    assert (found.key, found.template_key) == ("default/spare", "PodTemplate/default/web")
    assert (found.replicas, found.limits, found.generation) == (3, {"cpu": 2000}, 4)
    assert found.is_active


def test_a_buffer_of_a_workload() -> None:
    found = parse_capacity_buffer(buffer(**WORKLOAD, percentage=20)).record
    assert found is not None
    assert (found.template_key, found.percentage) == ("Deployment/default/web", 20)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"replicas": 1}, "spec.podTemplateRef: is required; name a PodTemplate, or a workload in scalableRef"),
        ({**TEMPLATE, **WORKLOAD, "replicas": 1}, "spec.scalableRef: podTemplateRef and scalableRef"),
        (TEMPLATE, "spec.replicas: is required with podTemplateRef, or limits"),
        ({**TEMPLATE, "replicas": -1}, "spec.replicas: "),
        ({**WORKLOAD, "percentage": "10%"}, "spec.percentage: "),
        ({**TEMPLATE, "replicas": 1, "limits": {"cpu": "lots"}}, "spec.limits.cpu: "),
        ({"podTemplateRef": {}, "replicas": 1}, "spec.podTemplateRef.name: "),
        ({**TEMPLATE, "replica": 1, "replicas": 1}, "spec.replica: unknown field; did you mean replicas?"),
    ],
)  # fmt: skip
def test_a_fault_names_the_field_and_the_fix(spec: dict[str, Any], fault: str) -> None:
    """One clear error; the record carries it, so that the status can say it."""
    found = [str(one) for one in check(buffer(**spec))]
    assert any(one.startswith(fault) for one in found), found
    if "replica" not in spec:
        record = parse_capacity_buffer(buffer(**spec)).record
        assert record is not None
        assert any(one.startswith(fault) for one in record.faults)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({**TEMPLATE, "replicas": 1, "provisioningStrategy": "other"}, "spec.provisioningStrategy"),
        ({**TEMPLATE, "replicas": 1, "percentage": 10}, "spec.percentage"),
        (WORKLOAD, "spec.replicas"),
    ],
)
def test_what_has_no_effect_is_a_warning(spec: dict[str, Any], field: str) -> None:
    assert check(buffer(**spec)) == []
    (warning,) = warnings(buffer(**spec))
    assert str(warning).startswith(field)


def test_another_version_and_other_kinds_of_the_group() -> None:
    """The group has kinds of other programs, which are not ours to judge."""
    old = {**buffer(**TEMPLATE, replicas=1), "apiVersion": "autoscaling.x-k8s.io/v1alpha1"}
    assert check(old) == []
    assert is_ours(old)
    unknown = {**old, "apiVersion": "autoscaling.x-k8s.io/v2"}
    assert [str(one) for one in check(unknown)] == [
        "apiVersion: CapacityBuffer is not supported in autoscaling.x-k8s.io/v2; "
        "use autoscaling.x-k8s.io/v1alpha1 or autoscaling.x-k8s.io/v1beta1"
    ]
    assert not is_ours({"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "CapacityQuota"})


def test_a_status_is_read_as_it_was_written() -> None:
    shown: dict[str, str | int] = {
        "podTemplateRef": "web",
        "podTemplateGeneration": 2,
        "replicas": 3,
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
    }
    first = parse_capacity_buffer(buffer(**TEMPLATE, replicas=3)).record
    assert first is not None
    written = status_object(shown, first.conditions)
    again = parse_capacity_buffer(buffer(written, **TEMPLATE, replicas=3)).record
    assert again is not None
    assert again.shown == shown
    assert status_object({}, {})["podTemplateRef"] is None, "a merge patch removes what is gone"


@pytest.mark.parametrize(
    ("raw", "key", "replicas"),
    [
        ({"kind": "PodTemplate", "template": POD}, "PodTemplate/default/spare", 0),
        ({"kind": "Deployment", "spec": {"replicas": 7, "template": POD}}, "Deployment/default/spare", 7),
        ({"kind": "StatefulSet", "spec": {"template": POD}}, "StatefulSet/default/spare", 1),
        ({"kind": "ReplicaSet", "spec": {"replicas": 0, "template": POD}}, "ReplicaSet/default/spare", 0),
    ],
)  # fmt: skip
def test_templates_of_every_kind(raw: dict[str, Any], key: str, replicas: int) -> None:
    found = parse_pod_template({"metadata": META, **raw}).record
    assert found is not None
    assert (found.key, found.replicas, found.generation) == (key, replicas, 4)
    assert (found.pod.labels, found.pod.requests["cpu"], found.pod.faults) == (
        {"app": "web"}, 500, (),
    )  # fmt: skip


def test_the_replica_sets_of_a_deployment_are_passed_by() -> None:
    owner = [{"kind": "Deployment", "name": "web", "uid": "d", "controller": True}]
    raw = {"kind": "ReplicaSet", "metadata": {**META, "ownerReferences": owner}, "spec": {}}
    assert parse_pod_template(raw).record is None


def test_an_unreadable_template_is_a_pod_with_faults() -> None:
    raw = {"kind": "Deployment", "metadata": META, "spec": {"template": 1}}
    found = parse_pod_template(raw).record
    assert found is not None
    assert found.pod.faults == ("spec.template: must be an object",)
