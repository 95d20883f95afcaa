"""Partitions of devices and parts of shared capacity: pods with equal claims are counted exactly (DRA-05)."""

from __future__ import annotations

import pytest

from shared.domain.devices.records import CapacityPolicy, ClaimTemplate, Device, DeviceTemplate
from shared.domain.snapshot import Snapshot
from tests.support.planning.builders import make_catalogue, make_node, make_snapshot, make_type
from tests.support.planning.devices import (
    GPU,
    GPU_CLASS,
    allocated,
    claiming_pod,
    make_claim_template,
    make_device_template,
    make_resource_claim,
    make_slice,
    plan_devices,
    spec_of,
    want,
)

GPUS, SLICES = 2, 7
PROFILES = {"1g": (1, 7), "3g": (3, 2), "4g": (4, 1), "7g": (7, 1)}
"""Profile -> (slices of a GPU that it takes, how many of them a GPU holds)."""


def partitions() -> tuple[Device, ...]:
    """Every profile at every place of two GPUs."""
    return tuple(
        Device(
            f"gpu-{gpu}-{profile}-{number}",
            {f"{GPU}/profile": profile},
            consumes={f"gpu-{gpu}": {"slices": size}},
        )
        for gpu in range(GPUS)
        for profile, (size, count) in PROFILES.items()
        for number in range(count)
    )


COUNTERS = {f"gpu-{gpu}": {"slices": SLICES} for gpu in range(GPUS)}
KIND = make_type("m5.x1", 64, 256)


def profile(name: str) -> ClaimTemplate:
    selector = f'device.attributes["{GPU}"].profile == "{name}"'
    return make_claim_template(spec_of(want(1, selector)), name)


def cluster(*pods: object, template: DeviceTemplate, **changes: object) -> Snapshot:
    fields = {
        "catalogue": make_catalogue((KIND,)),
        "device_classes": (GPU_CLASS,),
        "device_templates": (template,),
        "claim_templates": tuple(map(profile, PROFILES)),
        **changes,
    }
    return make_snapshot(*pods, **fields)  # type: ignore[arg-type]


def loads(snapshot: Snapshot) -> list[int]:
    return sorted(len(one.pods) for one in plan_devices(snapshot).machines)


PARTITIONED = make_device_template("mig", (KIND.name,), partitions(), counters=COUNTERS)


@pytest.mark.parametrize(("name", "most"), [("1g", 14), ("3g", 4), ("4g", 2), ("7g", 2)])
def test_a_machine_holds_as_many_partitions_as_its_gpus(name: str, most: int) -> None:
    """A 4g takes four of seven slices, so that a GPU holds one, whatever the sum over the GPUs says."""
    pods = [claiming_pod(f"pod-{at:02d}", name) for at in range(most + 1)]
    assert loads(cluster(*pods, template=PARTITIONED)) == [1, most]


def test_partitions_of_different_sizes_share_the_counters() -> None:
    """Two 7g leave nothing for a 1g."""
    whole = [claiming_pod(f"whole-{at}", "7g", cpu="2") for at in range(2)]
    assert loads(cluster(*whole, claiming_pod("small", "1g"), template=PARTITIONED)) == [1, 2]
    mixed = [claiming_pod("whole", "7g", cpu="2")]
    mixed += [claiming_pod(f"small-{at}", "1g") for at in range(7)]
    assert loads(cluster(*mixed, template=PARTITIONED)) == [8]


def test_what_claims_hold_of_a_gpu_is_gone_for_other_profiles() -> None:
    """A 4g on the first GPU leaves three slices there: no second 4g, and one 3g."""
    held = make_resource_claim(spec_of(want()), "held", **allocated("node-1", "gpu-0-4g-0"))
    node = make_node("node-1", "64", "256Gi")
    shown = make_slice("node-1", partitions(), counters=COUNTERS)
    changes = {"nodes": (node,), "resource_slices": (shown,), "resource_claims": (held,)}
    for name, left in (("4g", 1), ("3g", 3), ("1g", 10)):
        pods = [claiming_pod(f"pod-{at:02d}", name) for at in range(left + 1)]
        plan = plan_devices(cluster(*pods, template=PARTITIONED, **changes))
        assert [len(uids) for uids in plan.existing.values()] == [left]


def shared_nic(policy: CapacityPolicy | None = None) -> tuple[Device, ...]:
    name = f"{GPU}/bandwidth"
    return tuple(
        Device(
            f"nic-{at}",
            capacity={name: 100},
            policies={name: policy} if policy else {},
            shared=True,
        )
        for at in range(2)
    )


@pytest.mark.parametrize(
    ("asked", "policy", "most"),
    [
        (30, None, 6),
        (60, None, 2),
        (None, None, 2),
        (None, CapacityPolicy(default=25), 8),
        (11, CapacityPolicy(least=10, step=10), 10),
        (30, CapacityPolicy(values=(20, 50, 100)), 4),
    ],
)
def test_shared_capacity_is_consumed_in_parts(
    asked: int | None, policy: CapacityPolicy | None, most: int
) -> None:
    """Two interfaces of 100: what is asked for is rounded up by their policy, and nothing asked for means all."""
    capacity = {} if asked is None else {"bandwidth": asked}
    claims = (make_claim_template(spec_of(want(capacity=capacity)), "part"),)
    pods = [claiming_pod(f"pod-{at:02d}", "part") for at in range(most + 1)]
    described = make_device_template("nic", (KIND.name,), shared_nic(policy))
    assert loads(cluster(*pods, template=described, claim_templates=claims)) == [1, most]
