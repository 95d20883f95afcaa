"""CEL selectors of devices: what they see, and what is done about those that fail (DRA-01, DRA-02)."""

from __future__ import annotations

import pytest

from shared.domain.devices.records import Device
from shared.domain.devices.selectors import LONGEST, expression_fault, selects

GPU = "gpu.nvidia.com"
DEVICE = Device(
    "gpu-0",
    {f"{GPU}/productName": "NVIDIA A100-SXM4-40GB", f"{GPU}/index": 3, "other/flag": True},
    {f"{GPU}/cudaComputeCapability": "8.0.0"},
    {f"{GPU}/memory": 40 * 1024**3},
)
OF_GPU = f'device.attributes["{GPU}"]'
MEMORY = f'device.capacity["{GPU}"].memory'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f'device.driver == "{GPU}"', True),
        (f'{OF_GPU}.productName.lowerAscii().matches("^.*a100.*$")', True),
        (f'{OF_GPU}.productName in ["other", "NVIDIA A100-SXM4-40GB"]', True),
        (f"{OF_GPU}.index > 3", False),
        ('device.attributes["other"].flag', True),
        (f'{MEMORY}.compareTo(quantity("40Gi")) >= 0', True),
        (f'{MEMORY}.isGreaterThan(quantity("40Gi"))', False),
        (f'{MEMORY} == quantity("40Gi")', True),
        (f'{OF_GPU}.cudaComputeCapability.compareTo(semver("7.5.0")) > 0', True),
        (f'{OF_GPU}.cudaComputeCapability.isLessThan(semver("8.0.0-rc.1"))', False),
        ("device.allowMultipleAllocations", False),
        ('has(device.attributes["absent"].name)', False),
    ],
)
def test_a_selector_sees_driver_attributes_and_capacity(expression: str, expected: bool) -> None:
    """As in Kubernetes a domain that the device lacks is an empty map."""
    assert selects([expression], GPU, DEVICE) == (expected, "")


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        (f"{OF_GPU}.absent == 1", "no such key: absent"),
        (f'{OF_GPU}.index == quantity("x")', "is not a quantity"),
        ("1 + 1", "it must be true or false"),
    ],
)
def test_a_selector_that_fails_on_a_device_does_not_select_it(expression: str, fault: str) -> None:
    verdict = selects([expression], GPU, DEVICE)
    assert not verdict.selects
    assert fault in verdict.fault


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("device.attributes[", "it is no CEL expression"),
        ('cel.bind(d, device.driver, d == "")', "bind cannot be used here"),
        ('device.driver.replace("a", "aa") == ""', "replace cannot be used here"),
        ('device.driver.find("(a+)+$") == ""', "find cannot be used here"),
        (f'device.driver == "{"a" * LONGEST}"', "it is longer than"),
        (" && ".join(["[1].all(x, [1].all(y, true))"] * 3), "it may cost too much"),
    ],
)
def test_an_expression_whose_work_is_not_bounded_is_refused(expression: str, fault: str) -> None:
    assert fault in expression_fault(expression)


def test_the_first_selector_that_does_not_select_decides() -> None:
    """The class of another driver keeps the request's selector from failing."""
    assert selects(['device.driver == "x"', f"{OF_GPU}.absent == 1"], GPU, DEVICE) == (False, "")
