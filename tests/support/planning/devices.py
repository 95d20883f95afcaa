"""Devices, classes and claims for tests: name what the test is about, the rest is ordinary."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.devices.records import (
    Allocated,
    ClaimSpec,
    ClaimTemplate,
    Constraint,
    Device,
    DeviceClass,
    DeviceTemplate,
    DriverDevices,
    PodClaim,
    Request,
    ResourceClaim,
    ResourceSlice,
    Wanted,
)
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import InstanceType
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import make_pod, make_type

GPU = "gpu.nvidia.com"
COUNTING = SolverSettings(ignore_device_claims=False)
GPU_CLASS = DeviceClass(f"class-{GPU}", GPU, (f'device.driver == "{GPU}"',))


def product_is(name: str) -> str:
    """A selector of GPUs whose product name contains this."""
    return f'device.attributes["{GPU}"].productName.contains("{name}")'


def gpu_type(
    name: str, gpu: str, count: int, memory_mib: int = 81920, **changes: Any
) -> InstanceType:
    """An instance type with NVIDIA GPUs."""
    kind = make_type(name, **{"cpu": 96, "gib": 512, **changes})
    facts = {"name": gpu, "manufacturer": "nvidia", "count": str(count), "memory": str(memory_mib)}
    labels = {f"{keys.AWS_PREFIX}instance-gpu-{key}": (value,) for key, value in facts.items()}
    return replace(kind, labels={**kind.labels, **labels})


def want(count: int = 1, *selectors: str, name: str = "gpu", **changes: Any) -> Wanted:
    """So many GPUs that the selectors select."""
    return Wanted(name, **{"device_class": GPU, "count": count, "selectors": selectors, **changes})


def spec_of(*alternatives: Wanted, constraints: tuple[Constraint, ...] = ()) -> ClaimSpec:
    """One request: exactly, or the first available of several."""
    return ClaimSpec((Request("gpu", alternatives),), constraints)


def make_claim_template(spec: ClaimSpec, name: str = "gpus", **changes: Any) -> ClaimTemplate:
    fields: dict[str, Any] = {"uid": f"template-{name}", "namespace": "default", **changes}
    return ClaimTemplate(name=name, spec=spec, **fields)


def make_resource_claim(spec: ClaimSpec, name: str = "gpus", **changes: Any) -> ResourceClaim:
    fields: dict[str, Any] = {"uid": f"claim-{name}", "namespace": "default", **changes}
    return ResourceClaim(name=name, spec=spec, **fields)


def allocated(node: str, *devices: str, driver: str = GPU) -> dict[str, Any]:
    """The changes of a claim that holds these devices of a node."""
    found = tuple(Allocated(driver, node, device) for device in devices)
    return {"is_allocated": True, "devices": found, "node_names": (node,)}


def claiming_pod(name: str = "pod", template: str = "gpus", **changes: Any) -> Pod:
    """A pod with a claim from a template."""
    claims = (PodClaim("devices", template=template),)
    return make_pod(name, **{"claims_devices": True, "device_claims": claims, **changes})


def sharing_pod(name: str = "pod", claim: str = "gpus", **changes: Any) -> Pod:
    """A pod that uses a claim by its name."""
    claims = (PodClaim("devices", claim=claim),)
    return make_pod(name, **{"claims_devices": True, "device_claims": claims, **changes})


def gpus(count: int, product: str = "NVIDIA L4", **changes: Any) -> tuple[Device, ...]:
    """Devices as the driver publishes them."""
    attributes = {f"{GPU}/type": "gpu", f"{GPU}/productName": product}
    return tuple(
        Device(f"gpu-{at}", {**attributes, f"{GPU}/uuid": f"GPU-{at}"}, **changes)
        for at in range(count)
    )


def make_slice(
    node: str, devices: tuple[Device, ...], driver: str = GPU, **changes: Any
) -> ResourceSlice:
    fields: dict[str, Any] = {"uid": f"slice-{node}-{driver}", "pool": node, "node_name": node}
    return ResourceSlice(
        name=f"{node}-{driver}", driver=driver, devices=devices, **{**fields, **changes}
    )


def make_device_template(
    name: str,
    types: tuple[str, ...],
    devices: tuple[Device, ...],
    driver: str = GPU,
    **changes: Any,
) -> DeviceTemplate:
    """The devices of one driver on these instance types."""
    on = (Expression(keys.INSTANCE_TYPE, "In", types),)
    return DeviceTemplate(f"uid-{name}", name, on, (DriverDevices(driver, devices, **changes),))


def plan_devices(snapshot: Any, **changes: Any) -> Plan:
    """The plan in which devices count."""
    return solve(snapshot, **{"now": 0.0, "settings": COUNTING, **changes})
