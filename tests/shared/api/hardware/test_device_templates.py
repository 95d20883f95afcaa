"""DeviceTemplates: what they say, and their faults with the field and the fix (DRA-04)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.faults import field_text
from shared.api.hardware.device_templates import parse_device_template
from shared.domain.devices.records import Device, DriverDevices
from shared.domain.expressions import Expression

META = {"name": "mig", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
FAMILY = "karpenter.k8s.aws/instance-family"
ON_P5 = {"key": FAMILY, "operator": "In", "values": ["p5"]}
PARTITION = {
    "name": "gpu-0-small",
    "attributes": {"profile": {"string": "1g.10gb"}},
    "consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": "10"}}}],
}
COUNTERS = {"name": "gpu-0", "counters": {"memory": {"value": "80"}}}


def template(driver: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    drivers = [{"driver": "gpu.nvidia.com", **driver}, *more]
    return {"metadata": META, "spec": {"requirements": [ON_P5], "drivers": drivers}}


def test_a_template_has_devices_as_in_a_slice() -> None:
    parsed = parse_device_template(template({"devices": [PARTITION], "sharedCounters": [COUNTERS]}))
    assert parsed.faults == ()
    assert parsed.record is not None
    assert parsed.record.requirements == (Expression(FAMILY, "In", ("p5",)),)
    attributes: dict[str, Any] = {"gpu.nvidia.com/profile": "1g.10gb"}
    device = Device("gpu-0-small", attributes, consumes={"gpu-0": {"memory": 10}})
    expected = DriverDevices("gpu.nvidia.com", (device,), {"gpu-0": {"memory": 80}})
    assert parsed.record.drivers == (expected,)


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        (
            template({"devices": [{"name": "a"}, {"name": "a"}]}),
            "spec.drivers[0]",
            "devices: two devices have the name",
        ),
        (
            template({"devices": [{"attributes": {"x": 1}}]}),
            "spec.drivers[0]",
            "devices[0].attributes[x]: must be an object",
        ),
        (template({"devices": [PARTITION]}), "spec.drivers[0]", "not in sharedCounters"),
        (template({}, {"driver": "gpu.nvidia.com"}), "spec.drivers[1].driver", "described twice"),
        (template({"driver": "GPU"}), "spec.drivers[0].driver", ""),
        ({"metadata": META, "spec": {"requirements": []}}, "spec.drivers", "is required"),
    ],
)
def test_a_fault_names_the_field(document: dict[str, Any], field: str, message: str) -> None:
    parsed = parse_device_template(document)
    assert parsed.record is None
    found = {field_text(fault.path): fault.message for fault in parsed.faults}
    assert field in found
    assert message in found[field]
