"""Records of resource.k8s.io/v1: what devices there are, and which of them pods claim.

They hold what scheduling needs: opaque configuration of drivers is left out. Amounts are whole numbers in the units of
the driver; a fraction of a capacity does not count, and a fraction of a request counts as a whole.
"""

from __future__ import annotations

import msgspec

from shared.domain.expressions import Expression, Toleration

Attribute = bool | int | str
Counters = dict[str, dict[str, int]]
"""Counter set -> counter -> amount."""

EXACT, ALL = "ExactCount", "All"
"""Allocation modes: so many devices, or all that match on the node."""


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device. Names of attributes and capacities have their domain: ``gpu.nvidia.com/productName``."""

    name: str
    attributes: dict[str, Attribute] = {}
    versions: dict[str, str] = {}
    """Attributes that are semantic versions."""
    capacity: dict[str, int] = {}
    policies: dict[str, CapacityPolicy] = {}
    """Capacity -> how requests for it are rounded; only of devices that several claims share."""
    consumes: Counters = {}
    """What it takes from the counter sets of its pool."""
    taints: tuple[DeviceTaint, ...] = ()
    shared: bool = False
    """``allowMultipleAllocations``: several claims use it until its capacity is consumed."""


class DeviceTaint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A taint of a device that keeps claims without a toleration away."""

    key: str
    effect: str
    value: str = ""


class CapacityPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """``requestPolicy``: what a request for a part of a capacity is rounded up to."""

    default: int | None = None
    least: int | None = None
    step: int | None = None
    most: int | None = None
    values: tuple[int, ...] = ()


class ResourceSlice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Devices of one pool of one driver. ``node_name``: empty for devices that do not belong to one node."""

    uid: str
    name: str
    driver: str
    pool: str
    node_name: str = ""
    pool_generation: int = 0
    pool_slices: int = 1
    devices: tuple[Device, ...] = ()
    counters: Counters = {}


class DeviceClass(msgspec.Struct, frozen=True, omit_defaults=True):
    """One DeviceClass: CEL expressions that all must be true of a device."""

    uid: str
    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    """``extendedResourceName``: pods may ask for this resource instead of making a claim."""
    created_at: float = 0.0


class Wanted(msgspec.Struct, frozen=True, omit_defaults=True):
    """``exactly``, or one of the alternatives of ``firstAvailable``."""

    name: str
    """Of the request, or ``request/alternative``."""
    device_class: str
    selectors: tuple[str, ...] = ()
    mode: str = EXACT
    count: int = 1
    admin: bool = False
    """Looks at devices that others may use, and takes none."""
    tolerations: tuple[Toleration, ...] = ()
    capacity: dict[str, int] = {}
    """Capacity, without or with its domain -> the part of it that is asked for."""


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request of a claim: the alternatives, the preferred one first."""

    name: str
    alternatives: tuple[Wanted, ...]


class Constraint(msgspec.Struct, frozen=True, omit_defaults=True):
    """All devices of these requests (none: of all) have one value of an attribute, or each another one."""

    match: str = ""
    distinct: str = ""
    requests: tuple[str, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a claim asks for."""

    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()


class Allocated(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device of an allocated claim."""

    driver: str
    pool: str
    device: str
    admin: bool = False
    consumed: dict[str, int] = {}
    """Of a shared device: capacity -> the part that is taken."""


class ResourceClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """One ResourceClaim. ``nodes``: node selector terms of an allocation, OR-ed; ``node_names``: the nodes that they
    name directly."""

    uid: str
    namespace: str
    name: str
    spec: ClaimSpec = ClaimSpec()
    is_allocated: bool = False
    devices: tuple[Allocated, ...] = ()
    nodes: tuple[tuple[Expression, ...], ...] = ()
    node_names: tuple[str, ...] = ()
    reserved_for: tuple[str, ...] = ()
    """UIDs of the pods that use it."""
    terminating: bool = False
    faults: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class ClaimTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    """One ResourceClaimTemplate."""

    uid: str
    namespace: str
    name: str
    spec: ClaimSpec = ClaimSpec()
    faults: tuple[str, ...] = ()
    title: str = ""
    """What messages call it that is no object; empty: by its kind and key."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class PodClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a pod's ``resourceClaims``: a claim, or a template from which one is made for the pod."""

    name: str
    claim: str = ""
    """Of a template: the claim that was made; empty until then."""
    template: str = ""
    needless: bool = False
    """The status says that no claim is needed."""


class DriverDevices(msgspec.Struct, frozen=True, omit_defaults=True):
    """The devices that one driver publishes on a node."""

    driver: str
    devices: tuple[Device, ...] = ()
    counters: Counters = {}


class DeviceTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    """The devices of the instance types that meet the requirements, instead of those that are built in."""

    uid: str
    name: str
    requirements: tuple[Expression, ...] = ()
    drivers: tuple[DriverDevices, ...] = ()
