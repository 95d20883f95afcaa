"""ProvisioningRequests and gangs as they are written, and as they are read (GAT-04, SCH-114)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.core.autoscaling.provisioning_requests import (
    fitting_text,
    parse_provisioning_request,
)
from shared.api.core.pod_templates import parse_pod_template
from shared.api.core.pods import parse_pod
from shared.api.registry import check, warnings

META = {
    "name": "job",
    "namespace": "default",
    "uid": "u",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
SETS = [{"podTemplateRef": {"name": "main"}, "count": 3}]


def request(version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"autoscaling.x-k8s.io/{version}",
        "kind": "ProvisioningRequest",
        "metadata": META,
        "spec": {"provisioningClassName": CHECK_CAPACITY, "podSets": SETS, **spec},
    }


def test_what_a_status_says_of_pod_sets() -> None:
    """A detail of another form counts as none."""
    raw = request(parameters={"partialCapacityCheck": "bookPartial"})
    assert (check(raw), warnings(raw)) == ([], [])
    for written, fitting in ((fitting_text(["a"]), ("a",)), ("{", ()), ("5", ()), ("[1]", ())):
        status = {"provisioningClassDetails": {"schedulablePodSets": written}}
        found = parse_provisioning_request({**raw, "status": status}).record
        assert found is not None
        assert (found.partial, found.fitting) == ("bookPartial", fitting)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_request_of_both_versions(version: str) -> None:
    given = {"ValidUntilSeconds": "60", "noRetry": "true"}
    raw = request(version, parameters=given)
    assert (check(raw), warnings(raw)) == ([], [])
    found = parse_provisioning_request(raw).record
    assert found is not None
    assert (found.key, found.pods, found.is_ours) == ("default/job", 3, True)
    assert (found.valid_seconds, found.retries) == (60.0, False)
    assert [found.template_key(one) for one in found.pod_sets] == ["PodTemplate/default/main"]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"podSets": []}, "spec.podSets: "),
        ({"podSets": [{"podTemplateRef": {"name": "main"}, "count": 0}]}, "spec.podSets[0].count: "),
        ({"podSets": [{"podTemplateRef": {"name": "A B"}, "count": 1}]}, "spec.podSets[0].podTemplateRef.name: "),
        ({"podSets": [*SETS, {"podTemplateRef": {"name": "b"}, "count": 5000}]}, "spec.podSets: 5003 pods"),
        ({"parameters": {"ValidUntilSeconds": "1h"}}, "spec.parameters.ValidUntilSeconds: '1h' is no number"),
        ({"parameters": {"noRetry": "yes"}}, "spec.parameters.noRetry: must be"),
        ({"parameters": {"partialCapacityCheck": "yes"}}, 'spec.parameters.partialCapacityCheck: must be "checkOnly"'),
    ],
)  # fmt: skip
def test_a_fault_names_the_field_and_the_fix(spec: dict[str, Any], fault: str) -> None:
    raw = request(**spec)
    assert any(str(one).startswith(fault) for one in check(raw)), check(raw)
    record = parse_provisioning_request(raw).record
    assert record is not None
    assert any(one.startswith(fault) for one in record.faults)


def test_what_has_no_effect_is_a_warning() -> None:
    found = warnings(request(provisioningClassName="a.example", parameters={"x": "y"}))
    assert [str(one).partition(":")[0] for one in found] == [
        "spec.provisioningClassName", "spec.parameters.x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "gang"),
    [
        ({}, ("", 0)),
        (
            {"annotations": {"dovetail.sh/gang": "train", "dovetail.sh/gang-size": "8"}},
            ("train", 8),
        ),
        ({"annotations": {"dovetail.sh/gang": "train"}}, ("train", 0)),
        (
            {
                "labels": {"kueue.x-k8s.io/pod-group-name": "group"},
                "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
            },
            ("group", 2),
        ),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "pg"}}, ("pg", 0)),
    ],
)
def test_gangs_of_every_writer(metadata: dict[str, Any], gang: tuple[str, int]) -> None:
    pod = parse_pod({"metadata": {**META, **metadata}, "spec": {"containers": []}})
    assert ((pod.gang, pod.gang_size), pod.faults) == (gang, ())


@pytest.mark.parametrize("size", ["many", "0", "5001", "-1"])
def test_a_wrong_size_is_a_fault_of_the_pod(size: str) -> None:
    written = {"dovetail.sh/gang": "train", "dovetail.sh/gang-size": size}
    pod = parse_pod({"metadata": {**META, "annotations": written}, "spec": {"containers": []}})
    (fault,) = pod.faults
    assert fault == (
        "metadata.annotations[dovetail.sh/gang-size]: must be a number of pods from 1 to 5000, "
        'such as "8"'
    )


ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("name", "key", "found"),
    [
        ("dovetail.sh/gang-topology", ZONE, (ZONE, False)),
        ("dovetail.sh/gang-topology", "failure-domain.beta.kubernetes.io/zone", (ZONE, False)),
        ("kueue.x-k8s.io/podset-required-topology", ZONE, (ZONE, False)),
        ("kueue.x-k8s.io/podset-preferred-topology", ZONE, (ZONE, True)),
    ],
)
def test_the_topology_of_a_gang(name: str, key: str, found: tuple[str, bool]) -> None:
    written = {"dovetail.sh/gang": "train", name: key}
    pod = parse_pod({"metadata": {**META, "annotations": written}, "spec": {"containers": []}})
    assert ((pod.gang_topology, pod.gang_topology_preferred), pod.faults) == (found, ())


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        (
            {"dovetail.sh/gang": "train", "dovetail.sh/gang-topology": "a b"},
            "must be the key of a node label, such as topology.kubernetes.io/zone",
        ),
        (
            {"dovetail.sh/gang-topology": ZONE},
            "is for pods of a gang: add the annotation dovetail.sh/gang, or take it away",
        ),
    ],
)
def test_a_wrong_topology_is_a_fault_of_the_pod(written: dict[str, str], fault: str) -> None:
    pod = parse_pod({"metadata": {**META, "annotations": written}, "spec": {"containers": []}})
    assert pod.faults == (f"metadata.annotations[dovetail.sh/gang-topology]: {fault}",)


def test_the_topology_that_kueue_asks_for_reaches_the_pods_of_a_request() -> None:
    """The pods of a request are a gang without saying so; other annotations of a template say nothing."""
    asked = {"kueue.x-k8s.io/podset-required-topology": ZONE, "dovetail.sh/gang": "x"}
    template = {
        "metadata": {**META, "namespace": "team"},
        "template": {"metadata": {"annotations": asked}, "spec": {"containers": []}},
    }
    found = parse_pod_template(template).record
    assert found is not None
    pod = found.pod
    assert (pod.gang, pod.gang_topology, pod.faults) == ("", ZONE, ())


def test_a_pod_names_the_request_that_it_uses() -> None:
    written = {"autoscaling.x-k8s.io/consume-provisioning-request": "job"}
    pod = parse_pod({"metadata": {**META, "annotations": written}, "spec": {"containers": []}})
    assert pod.consumes == "job"
