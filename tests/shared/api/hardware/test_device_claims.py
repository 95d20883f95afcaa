"""Objects of resource.k8s.io/v1 become records, and their faults name the field (DRA-01, DRA-02)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.core.pods import parse_pod
from shared.api.hardware.device_claims import (
    parse_claim_template,
    parse_device_class,
    parse_resource_claim,
    parse_resource_slice,
)
from shared.domain.devices.records import (
    ALL,
    Allocated,
    CapacityPolicy,
    Constraint,
    Device,
    DeviceTaint,
    PodClaim,
)
from shared.errors import InvalidObject

META = {
    "name": "one",
    "namespace": "default",
    "uid": "u",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}


def raw(spec: Any, **more: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": spec, **more}


def requests(*given: Any, **more: Any) -> dict[str, Any]:
    return {"devices": {"requests": list(given), **more}}


def test_a_slice_has_its_devices_with_qualified_names() -> None:
    device = {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "a"},
            "index": {"int": 0},
            "other/up": {"bool": True},
            "driver": {"version": "1.2.3"},
        },
        "capacity": {"memory": {"value": "1Ki", "requestPolicy": {"default": "1"}}},
        "consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1Ki"}}}],
        "taints": [{"key": "k", "effect": "NoSchedule"}],
        "allowMultipleAllocations": True,
    }
    spec = {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 3, "resourceSliceCount": 2},
        "devices": [device],
        "sharedCounters": [{"name": "s", "counters": {"m": {"value": "4Ki"}}}],
    }
    found = parse_resource_slice(raw(spec))
    assert (found.driver, found.pool, found.node_name) == ("d", "p", "n")
    assert (found.pool_generation, found.pool_slices) == (3, 2)
    assert found.counters == {"s": {"m": 4096}}
    assert found.devices == (
        Device(
            "gpu-0",
            {"d/model": "a", "d/index": 0, "other/up": True},
            {"d/driver": "1.2.3"},
            {"d/memory": 1024},
            {"d/memory": CapacityPolicy(default=1)},
            {"s": {"m": 1024}},
            (DeviceTaint("k", "NoSchedule"),),
            True,
        ),
    )


@pytest.mark.parametrize(
    ("device", "field"),
    [
        ({"name": 1}, "spec.devices[0].name"),
        ({"attributes": {"a": {"string": "x", "int": 1}}}, "spec.devices[0].attributes[a]"),
        ({"attributes": {"a": {"int": 2**70}}}, "spec.devices[0].attributes[a]"),
        ({"capacity": {"m": {"value": "much"}}}, "spec.devices[0].capacity[/m].value"),
        ({"consumesCounters": {}}, "spec.devices[0].consumesCounters"),
    ],
)
def test_a_fault_of_a_slice_names_its_field(device: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidObject) as raised:
        parse_resource_slice(raw({"devices": [device]}))
    assert raised.value.field == field


def test_a_class_has_its_selectors() -> None:
    spec = {"selectors": [{"cel": {"expression": " true "}}]}
    assert parse_device_class(raw(spec)).selectors == ("true",)


def test_a_claim_says_what_it_asks_for() -> None:
    spec = requests(
        {"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
        {
            "name": "b",
            "firstAvailable": [
                {"name": "x", "deviceClassName": "c", "count": 2},
                {"name": "y", "deviceClassName": "c", "capacity": {"requests": {"m": "1Ki"}}},
            ],
        },
        constraints=[{"matchAttribute": "d/root", "requests": ["a"]}],
    )
    found = parse_resource_claim(raw(spec)).spec
    assert found.requests[0].alternatives[0].mode == ALL
    assert [one.name for one in found.requests[1].alternatives] == ["b/x", "b/y"]
    assert [one.count for one in found.requests[1].alternatives] == [2, 1]
    assert found.requests[1].alternatives[1].capacity == {"m": 1024}
    assert found.constraints == (Constraint("d/root", "", ("a",)),)


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ({"name": "a"}, "spec.devices.requests[0]: needs exactly or firstAvailable"),
        ({"name": "a", "exactly": {}}, "spec.devices.requests[0].exactly.deviceClassName"),
        (
            {"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": "Some"}},
            "must be ExactCount or All",
        ),
        ({"name": "a", "exactly": {"deviceClassName": "c", "count": 5000}}, "must be at most 1024"),
        ("text", "spec.devices.requests[0]: must be an object"),
    ],
)
def test_a_claim_with_a_fault_is_a_record_that_says_so(request_: Any, fault: str) -> None:
    """Its pods wait with this text, and others go on."""
    claim = parse_resource_claim(raw(requests(request_)))
    template = parse_claim_template(raw({"spec": requests(request_)}))
    assert fault in claim.faults[0]
    assert template.faults[0].startswith("spec.spec.devices")


def test_an_allocated_claim_has_its_devices_and_its_node() -> None:
    result = {
        "request": "a",
        "driver": "d",
        "pool": "p",
        "device": "g",
        "consumedCapacity": {"m": "2"},
    }
    node = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [node]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "web", "uid": "pod"}],
    }
    found = parse_resource_claim(raw(requests(), status=status))
    assert found.is_allocated
    assert found.devices == (Allocated("d", "p", "g", False, {"d/m": 2}),)
    assert found.node_names == ("n",)
    assert found.reserved_for == ("pod",)


def test_a_pod_knows_its_claims_and_those_made_for_it() -> None:
    entries = [
        {"name": "named", "resourceClaimName": "shared"},
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "new", "resourceClaimTemplateName": "t"},
        {"name": "none", "resourceClaimTemplateName": "t"},
    ]
    made = [{"name": "made", "resourceClaimName": "web-made-x"}, {"name": "none"}]
    pod = parse_pod(raw({"resourceClaims": entries}, status={"resourceClaimStatuses": made}))
    assert pod.device_claims == (
        PodClaim("named", "shared"),
        PodClaim("made", "web-made-x", "t"),
        PodClaim("new", "", "t"),
        PodClaim("none", "", "t", True),
    )
    both = [{"name": "x", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]
    (fault,) = parse_pod(raw({"resourceClaims": both})).faults
    assert fault.startswith("spec.resourceClaims[0]: needs either")
