"""EC2's remaining capacity: stated capacity per pool, truncated fleets, and the account's vCPU quotas.

A statement names one pool or, with ``*`` and ``?``, many pools; each matching pool has the stated number for itself.
The latest statement that matches a pool applies. All data is read and changed under the inventory's lock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from random import Random
from typing import Any

from local.aws.fleet.plan import UNLIMITED, PoolKey

ICE = "InsufficientInstanceCapacity"
NO_ADDRESSES = "InsufficientFreeAddressesInSubnet"
SPOT_LIMIT = "MaxSpotInstanceCountExceeded"
VCPU_LIMIT = "VcpuLimitExceeded"

MESSAGES = {
    ICE: "We currently do not have sufficient {type} capacity in the Availability Zone you "
    "requested ({zone}). Our system will be working on provisioning additional capacity.",
    "UnfulfillableCapacity": "Unable to fulfill capacity due to your request configuration. "
    "Please adjust your request and try again.",
    SPOT_LIMIT: "Max spot instance count exceeded",
    VCPU_LIMIT: "You have requested more vCPU capacity than your current vCPU limit "
    "allows for the instance bucket that the specified instance type belongs to.",
    "Unsupported": "The requested configuration is currently not supported.",
    "MaxFleetCountExceeded": "You've reached the quota for the number of fleets.",
    "ReservationCapacityExceeded": "The requested reservation does not have sufficient "
    "compatible and available capacity for this request.",
    NO_ADDRESSES: "There are not enough free addresses in the subnet to satisfy the requested "
    "number of instances.",
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": "The provided credentials do not have "
    "permission to create the service-linked role for EC2 Spot Instances.",
    "RequestLimitExceeded": "Request limit exceeded.",
    "InternalError": "An internal error has occurred",
    "InvalidLaunchTemplateId.NotFound": "The specified launch template, with the id that the "
    "fleet names, does not exist.",
    "InvalidLaunchTemplateName.NotFoundException": "At least one of the launch templates specified "
    "in the request does not exist.",
}
"""Error codes that a pool may answer with: those of LCH-60 and LCH-63, and those that a fleet reports for its internal
calls.
"""

STATEMENT_LIMIT = 1_000
CUT_LIMIT = 100


def message(code: str, key: PoolKey) -> str:
    """EC2's message for ``code`` in that pool."""
    return MESSAGES[code].format(type=key[0], zone=key[1])


@dataclass(frozen=True, slots=True)
class Statement:
    """``available`` instances are left in each matching pool; None removes the limit.

    ``percent`` below 100 selects only that share of the matching pools, drawn from ``seed``.
    """

    instance_type: str
    zone: str
    capacity_type: str
    available: int | None
    code: str = ICE
    percent: float = 100.0
    seed: int = 0
    placement_group: str = ""
    """Only launches into the group of this name meet it; empty: every launch does."""

    def matches(self, key: PoolKey, group: str = "") -> bool:
        """Whether the statement applies to this pool, for a launch into this placement group."""
        patterns = (self.instance_type, self.zone, self.capacity_type)
        named = all(fnmatchcase(value, p) for value, p in zip(key, patterns, strict=True))
        inside = not self.placement_group or fnmatchcase(group, self.placement_group)
        return (named and inside) and (
            self.percent >= 100
            or Random(f"{self.seed}/{'/'.join(key)}").random() * 100 < self.percent
        )

    def replaces(self, earlier: Statement) -> bool:
        """Whether this statement covers exactly the pools of ``earlier``."""
        mine = (self.instance_type, self.zone, self.capacity_type, self.placement_group)
        return self.percent >= 100 and mine == (
            earlier.instance_type,
            earlier.zone,
            earlier.capacity_type,
            earlier.placement_group,
        )


@dataclass(slots=True)
class Cut:
    """The next ``count`` fleets give at most ``give`` instances."""

    give: int
    count: int
    code: str = ICE


@dataclass(slots=True)
class _Stated:
    statement: Statement
    used: dict[PoolKey, int] = field(default_factory=dict)

    def left(self, key: PoolKey) -> int:
        available = self.statement.available
        return UNLIMITED if available is None else max(0, available - self.used.get(key, 0))


class Capacity:
    """Stated capacity. Pools without a statement are unlimited."""

    def __init__(self) -> None:
        self._stated: list[_Stated] = []
        self._cuts: deque[Cut] = deque()

    def state(self, statement: Statement) -> None:
        """Add a statement. Raises OverflowError when there are too many."""
        kept = [one for one in self._stated if not statement.replaces(one.statement)]
        if len(kept) >= STATEMENT_LIMIT:
            raise OverflowError(f"there are already {STATEMENT_LIMIT} statements about capacity")
        self._stated = [*kept, _Stated(statement)]

    def left(self, key: PoolKey, group: str = "") -> int:
        """Number of instances left in the pool, for launches into this placement group."""
        found = self._decisive(key, group)
        return UNLIMITED if found is None else found.left(key)

    def use(self, key: PoolKey, number: int, group: str = "") -> None:
        """Take ``number`` instances from the pool."""
        found = self._decisive(key, group)
        if found is not None and found.statement.available is not None:
            found.used[key] = found.used.get(key, 0) + number

    def code(self, key: PoolKey, group: str = "") -> str:
        """The error code of an exhausted pool."""
        found = self._decisive(key, group)
        return ICE if found is None else found.statement.code

    def cut_fleets(self, cut: Cut) -> None:
        """Truncate the next fleets. Raises OverflowError when too many cuts are pending."""
        if len(self._cuts) >= CUT_LIMIT:
            raise OverflowError(f"{CUT_LIMIT} cuts of fleets are already pending")
        self._cuts.append(cut)

    def next_cut(self) -> Cut | None:
        """Take the cut of the fleet that starts now; None when no cut is pending."""
        if not self._cuts:
            return None
        cut = self._cuts[0]
        cut.count -= 1
        if cut.count <= 0:
            self._cuts.popleft()
        return cut

    def described(self) -> dict[str, Any]:
        """A readable form: the statements, oldest first, with their use, and the pending cuts."""
        rows = [
            {**asdict(one.statement), "used": {"/".join(k): n for k, n in one.used.items()}}
            for one in self._stated
        ]
        return {"statements": rows, "cuts": [asdict(cut) for cut in self._cuts]}

    def clear(self) -> None:
        """Make every pool unlimited again."""
        self._stated.clear()
        self._cuts.clear()

    def _decisive(self, key: PoolKey, group: str) -> _Stated | None:
        stated = reversed(self._stated)
        return next((one for one in stated if one.statement.matches(key, group)), None)


@dataclass(slots=True)
class Quotas:
    """vCPUs that all live instances may have together, per market; None means no quota."""

    on_demand_vcpus: int | None = None
    spot_vcpus: int | None = None

    def limit(self, lifecycle: str) -> tuple[int | None, str]:
        """(vCPUs, error code) of a market."""
        if lifecycle == "spot":
            return self.spot_vcpus, SPOT_LIMIT
        return self.on_demand_vcpus, VCPU_LIMIT

    def clear(self) -> None:
        """Remove both quotas."""
        self.on_demand_vcpus = self.spot_vcpus = None
