"""Termination lifecycle hooks of Auto Scaling groups: their timeouts, heartbeats and completion (INT-41).

What may go wrong: the lifecycle action has ended meanwhile, because it timed out or another client completed it. EC2
Auto Scaling reports a ValidationError then; these calls return False instead of raising it.
"""

from __future__ import annotations

import re

import msgspec

from shared.cloud.client.calls import AwsService, Json
from shared.errors import DovetailError

CONTINUE = "CONTINUE"
TOKEN_LENGTH = 36
_OVER = re.compile("no active lifecycle action|not found", re.IGNORECASE)
"""An ended action is recognised by the error text only: ValidationError also stands for every invalid parameter."""


class HookTimes(msgspec.Struct, frozen=True):
    """Seconds that a hook waits for a heartbeat, and the total that heartbeats cannot extend."""

    heartbeat_seconds: float
    global_seconds: float


class Token(msgspec.Struct, frozen=True):
    """Identifies one lifecycle action. A ``token`` of the wrong length is omitted: the instance then identifies it."""

    group: str
    hook: str
    token: str
    instance: str

    @property
    def parameters(self) -> Json:
        """The parameters that identify the action in a call."""
        named = {"AutoScalingGroupName": self.group, "LifecycleHookName": self.hook}
        fits = len(self.token) == TOKEN_LENGTH
        token = {"LifecycleActionToken": self.token} if fits else {}
        return {**named, **token, "InstanceId": self.instance}


class AutoScaling(AwsService):
    """Calls on lifecycle hooks. Writes are sent once; callers may repeat them, they are idempotent."""

    async def hook_times(self, group: str, hook: str) -> HookTimes | None:
        """The timeouts of a hook; None when it does not exist. Raises TransientError and Unauthorized."""
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
        """Whether the group carries a tag with this key. Raises TransientError and Unauthorized."""
        filters = [
            {"Name": "auto-scaling-group", "Values": [group]},
            {"Name": "key", "Values": [key]},
        ]
        return bool((await self._calls.read("describe_tags", Filters=filters)).get("Tags"))

    async def heartbeat(self, action: Token) -> bool:
        """Extend the hook's wait. False when the action has ended. Raises DovetailError."""
        return await self._answered("record_lifecycle_action_heartbeat", action.parameters)

    async def complete(self, action: Token) -> bool:
        """Complete the action with CONTINUE. False when it has ended. Raises as ``heartbeat``."""
        parameters = {**action.parameters, "LifecycleActionResult": CONTINUE}
        return await self._answered("complete_lifecycle_action", parameters)

    async def may_read_tags(self) -> None:
        """Check the permission to read tags, with a group that does not exist. Raises Unauthorized."""
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
