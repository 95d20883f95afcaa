"""Client of the AWS emulator's control endpoint for the demo: list instances, send interruptions.

Requests are blocking HTTP calls in a thread: a few calls per second to this machine.

Errors: the endpoint exists only in the emulator; against real AWS every call raises Unreachable.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from local.probe import request_json

LIVE_STATES = frozenset({"pending", "running"})


@dataclass(frozen=True)
class InstanceView:
    """One EC2 instance as the emulator shows it."""

    instance_id: str
    instance_type: str
    zone: str
    state: str

    @property
    def live(self) -> bool:
        return self.state in LIVE_STATES


class Emulator:
    """The emulator at ``url``, for one cluster's instances."""

    def __init__(self, url: str, cluster: str) -> None:
        self._url = url.rstrip("/") + "/_dovetail"
        self._owned = f"kubernetes.io/cluster/{cluster}"

    async def instances(self) -> list[InstanceView]:
        """All instances that the cluster owns, including terminated ones. Raises Unreachable."""
        answer = await asyncio.to_thread(request_json, f"{self._url}/instances")
        return [
            InstanceView(raw["instanceId"], raw["instanceType"], raw["zone"], raw["state"])
            for raw in answer["instances"]
            if (raw.get("tags") or {}).get(self._owned) == "owned"
        ]

    async def interrupt(self, instance_id: str) -> None:
        """Send a spot instance its two-minute notice. Raises Unreachable."""
        body = {"kind": "spot", "instanceId": instance_id}
        await asyncio.to_thread(request_json, f"{self._url}/interruptions", body=body)
