"""Stated capacity per pool: what is left, and which error a pool gives that has none."""

from __future__ import annotations

from local.aws.fleet import PoolKey

ICE = "InsufficientInstanceCapacity"

MESSAGES = {
    ICE: "We currently do not have sufficient {type} capacity in the Availability Zone you "
    "requested ({zone}). Our system will be working on provisioning additional capacity.",
    "UnfulfillableCapacity": "Unable to fulfill capacity due to your request configuration. "
    "Please adjust your request and try again.",
    "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
    "VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit "
    "allows for the instance bucket that the specified instance type belongs to.",
    "Unsupported": "The requested configuration is currently not supported.",
}
"""The error codes of LCH-60 that a pool may answer with."""


class Capacity:
    """Pools without a statement are unlimited."""

    def __init__(self) -> None:
        self.left: dict[PoolKey, int] = {}
        self._codes: dict[PoolKey, str] = {}

    def state(self, key: PoolKey, number: int | None, code: str = ICE) -> None:
        """``number`` instances are left in the pool; None lifts the limit."""
        if number is None:
            self.left.pop(key, None)
            self._codes.pop(key, None)
            return
        self.left[key] = number
        self._codes[key] = code

    def use(self, key: PoolKey, number: int) -> None:
        """Take ``number`` from a limited pool."""
        if key in self.left:
            self.left[key] -= number

    def error(self, key: PoolKey) -> tuple[str, str]:
        """(code, message) of a pool that has too little."""
        code = self._codes.get(key, ICE)
        return code, MESSAGES[code].format(type=key[0], zone=key[1])

    def clear(self) -> None:
        """Every pool is unlimited again."""
        self.left.clear()
        self._codes.clear()
