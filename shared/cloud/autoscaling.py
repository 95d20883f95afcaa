"""Termination lifecycle hooks of auto scaling groups: how long they wait, heartbeats, and their end (INT-41).

What may go wrong: the action has ended meanwhile, because its time ran out or somebody else ended it. EC2 Auto Scaling
calls that a ValidationError; here it is an answer, not an error.
"""

from __future__ import annotations

import re

import msgspec

from shared.cloud.client.calls import Json, ServiceCalls
from shared.errors import DovetailError

CONTINUE = "CONTINUE"
TOKEN_LENGTH = 36
_OVER = re.compile("no active lifecycle action|not found", re.IGNORECASE)
"""In words only: the same code stands for every wrong parameter."""


class HookTimes(msgspec.Struct, frozen=True):
    """Seconds a hook waits for a heartbeat, and in all, whatever heartbeats say."""

    heartbeat_seconds: float
    global_seconds: float


class Token(msgspec.Struct, frozen=True):
    """Names one lifecycle action. A ``token`` that can be none is left out: then the instance does."""

    group: str
    hook: str
    token: str
    instance: str

    @property
    def parameters(self) -> Json:
        """For a call."""
        named = {"AutoScalingGroupName": self.group, "LifecycleHookName": self.hook}
        fits = len(self.token) == TOKEN_LENGTH
        token = {"LifecycleActionToken": self.token} if fits else {}
        return {**named, **token, "InstanceId": self.instance}


class AutoScaling:
    """The calls about hooks. Writes are sent once: whoever asks repeats them, which is harmless."""

    def __init__(self, calls: ServiceCalls) -> None:
        self._calls = calls

    async def hook_times(self, group: str, hook: str) -> HookTimes | None:
        """None: there is no such hook. Raises TransientError and Unauthorized."""
        try:
            answer = await self._calls.read(
                "describe_lifecycle_hooks", AutoScalingGroupName=group, LifecycleHookNames=[hook]
            )
        except DovetailError as error:
            if _is_over(error):
                return None
            raise
        for one in answer.get("LifecycleHooks") or ():
            heartbeat = float(one.get("HeartbeatTimeout") or 0)
            whole = float(one.get("GlobalTimeout") or 0)
            if heartbeat > 0:
                return HookTimes(heartbeat, max(heartbeat, whole))
        return None

    async def is_tagged(self, group: str, key: str) -> bool:
        """Does the group carry a tag of this key? Raises TransientError and Unauthorized."""
        filters = [
            {"Name": "auto-scaling-group", "Values": [group]},
            {"Name": "key", "Values": [key]},
        ]
        return bool((await self._calls.read("describe_tags", Filters=filters)).get("Tags"))

    async def heartbeat(self, action: Token) -> bool:
        """Have the hook wait on. False: the action is over. Raises TransientError, Unauthorized and DovetailError."""
        return await self._answered("record_lifecycle_action_heartbeat", action.parameters)

    async def complete(self, action: Token) -> bool:
        """End the wait with CONTINUE. False: the action is over. Raises as ``heartbeat``."""
        parameters = {**action.parameters, "LifecycleActionResult": CONTINUE}
        return await self._answered("complete_lifecycle_action", parameters)

    async def may_read_tags(self) -> None:
        """Prove the permission for tags with a group that does not exist. Raises Unauthorized."""
        await self.is_tagged("dovetail-check", "dovetail-check")

    async def _answered(self, operation: str, parameters: Json) -> bool:
        try:
            await self._calls.write(operation, **parameters)
        except DovetailError as error:
            if _is_over(error):
                return False
            raise
        return True


def _is_over(error: DovetailError) -> bool:
    return error.context.get("code") == "ValidationError" and bool(_OVER.search(error.message))
