"""The drivers that a machine names, and whether they have published their devices (DRA-07)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.domain.devices.drivers import RequestedDrivers, unpublished
from shared.domain.devices.records import ResourceSlice
from tests.support.planning.builders import make_catalogue, make_pod, make_snapshot
from tests.support.planning.devices import (
    GPU,
    GPU_CLASS,
    claiming_pod,
    gpu_type,
    gpus,
    make_claim_template,
    make_device_template,
    make_slice,
    product_is,
    spec_of,
    want,
)

L4 = gpu_type("g6.xlarge", "l4", 1, 22888)
NIC = replace(GPU_CLASS, name="nic", uid="nic", selectors=('device.driver == "nic.example.com"',))
CARDS = make_device_template("cards", ("g6.xlarge",), gpus(1), "nic.example.com")


def drivers(*wanted: str, **fields: object) -> list[str]:
    """Those of a machine whose one pod wants devices of these classes, the first that there is."""
    template = make_claim_template(spec_of(*(want(device_class=one) for one in wanted)))
    snapshot = make_snapshot(
        claiming_pod(),
        catalogue=make_catalogue((L4, *make_catalogue().types)),
        device_classes=(GPU_CLASS, NIC),
        device_templates=(CARDS,),
        claim_templates=(template,),
        **fields,
    )
    return RequestedDrivers(snapshot).of(("uid-pod",), "g6.xlarge")


def test_a_machine_names_the_drivers_of_the_devices_that_its_pods_use() -> None:
    assert drivers(GPU) == [GPU]
    assert drivers("nic") == ["nic.example.com"]


def test_of_alternatives_the_first_counts_that_the_type_has() -> None:
    template = spec_of(want(1, product_is("H100")), want(device_class="nic"))
    snapshot = make_snapshot(
        claiming_pod(),
        catalogue=make_catalogue((L4,)),
        device_classes=(GPU_CLASS, NIC),
        device_templates=(CARDS,),
        claim_templates=(make_claim_template(template),),
    )
    assert RequestedDrivers(snapshot).of(("uid-pod",), "g6.xlarge") == ["nic.example.com"]


def test_an_extended_resource_names_the_driver_of_its_class() -> None:
    pod = make_pod()
    pod = replace(pod, requests={**pod.requests, "nvidia.com/gpu": 1})
    answering = replace(GPU_CLASS, extended_resource="nvidia.com/gpu")
    snapshot = make_snapshot(pod, catalogue=make_catalogue((L4,)), device_classes=(answering,))
    assert RequestedDrivers(snapshot).of((pod.uid,), "g6.xlarge") == [GPU]


def test_pods_without_devices_name_none() -> None:
    assert RequestedDrivers(make_snapshot(make_pod())).of(("uid-pod",), "m5.large") == []
    snapshot = make_snapshot(make_pod(), device_classes=(GPU_CLASS,))
    assert RequestedDrivers(snapshot).of(("uid-pod", "gone"), "m5.large") == []
    assert drivers("unknown") == []


WHOLE = make_slice("node-1", gpus(1))
HALF = replace(WHOLE, pool_slices=2)
OLD = replace(HALF, name="old", pool_generation=1)


@pytest.mark.parametrize(
    ("slices", "missing"),
    [
        ((WHOLE,), ""),
        ((HALF,), GPU),
        ((HALF, replace(HALF, name="second")), ""),
        ((WHOLE, replace(OLD, pool_generation=2)), GPU),
        ((make_slice("node-2", gpus(1)),), GPU),
        ((make_slice("node-1", gpus(1), "nic.example.com"),), GPU),
        ((), GPU),
    ],
)
def test_a_driver_counts_with_a_complete_pool_of_its_newest_generation(
    slices: tuple[ResourceSlice, ...], missing: str
) -> None:
    assert unpublished([GPU], slices, "node-1") == missing
