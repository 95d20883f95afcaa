"""Auto scaling groups as far as termination lifecycle hooks need them.

Groups, hooks and tags are moto's. The members of a group and their termination are kept here, because moto's groups
start instances of their own. A terminating instance waits for every hook of its group until a client completes the
action, or until the heartbeat timeout or the global timeout expires; then it is terminated.

As in EC2 Auto Scaling, a token or an instance without an open action is a ValidationError.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moto.autoscaling.models import autoscaling_backends

from local.aws.clock.timers import Timers
from local.aws.ec2.instances import TERMINATION_STATES, Instance, Inventory
from local.aws.ec2.refusal import RequestRefused
from local.aws.interruptions.notices import Notices
from local.aws.moto.state import ACCOUNT_ID
from shared.concurrency.clock import Clock

TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
NAME_TAG = "aws:autoscaling:groupName"
LONGEST_WAIT_SECONDS = 172_800.0
WAITS_PER_HEARTBEAT = 100
INVALID = "ValidationError"
CONTINUE, ABANDON = "CONTINUE", "ABANDON"

Announce = Callable[[str, dict[str, str]], None]
"""(region, detail of the event)."""


def global_timeout(heartbeat_seconds: float) -> float:
    """Longest total wait of a hook, no matter how many heartbeats it gets."""
    return min(LONGEST_WAIT_SECONDS, WAITS_PER_HEARTBEAT * heartbeat_seconds)


@dataclass
class Action:
    """The wait of one hook for one instance. Times are monotonic."""

    hook: str
    token: str
    heartbeat_seconds: float
    default_result: str
    ends_at: float
    latest: float


@dataclass
class Member:
    """An instance of a group, with its open actions."""

    instance: Instance
    group: str
    state: str = "InService"
    actions: list[Action] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AutoScaling:
    """Members by instance id. All access happens under the inventory's lock."""

    inventory: Inventory
    notices: Notices
    timers: Timers
    clock: Clock
    announce: Announce
    _members: dict[str, Member] = field(default_factory=dict)

    def clear(self) -> None:
        """Remove every membership."""
        self._members.clear()

    def forget(self, instance_id: str) -> None:
        """Remove the membership of a deleted instance."""
        self._members.pop(instance_id, None)

    def members(self, region: str, instance_ids: list[str]) -> list[Member]:
        """The named members, or all members of the region, in the order in which they were attached."""
        return [
            member
            for instance_id, member in list(self._members.items())
            if member.instance.region == region
            and (not instance_ids or instance_id in instance_ids)
        ]

    def attach(self, region: str, group: str, instance_ids: list[str]) -> None:
        """Make running instances members of a group. Raises RequestRefused."""
        _group(region, group)
        with self.inventory.lock:
            for instance_id in instance_ids:
                instance = self.inventory.get(instance_id)
                if (
                    instance is None
                    or instance.state in TERMINATION_STATES
                    or instance_id in self._members
                ):
                    raise RequestRefused(INVALID, f"Invalid Instance ID(s): [{instance_id}]")
                self.inventory.remember(instance)
                instance.tags[NAME_TAG] = group
                self._members[instance_id] = Member(instance, group)
                self.notices.set_lifecycle(instance_id, "InService")

    def terminate(self, region: str, instance_id: str) -> Member:
        """Terminate this instance, at once or after its hooks. Raises RequestRefused."""
        with self.inventory.lock:
            member = self._members.get(instance_id)
            if member is None or member.instance.region != region:
                raise RequestRefused(
                    INVALID,
                    "Instance Id not found - No managed instance found for instance ID: "
                    f"{instance_id}",
                )
            if member.state != "InService":
                return member
            self.notices.set_lifecycle(instance_id, "Terminated")
            member.actions = [self._opened(hook) for hook in _hooks(region, member.group)]
            member.state = "Terminating:Wait"
            if not member.actions:
                self._finish(member)
            for action in member.actions:
                self._watch(member, action)
            details = [_detail(member, action) for action in member.actions]
        for detail in details:
            self.announce(region, detail)
        return member

    def heartbeat(self, region: str, parameters: dict[str, Any]) -> None:
        """Extend the action by one heartbeat timeout from now. Raises RequestRefused."""
        with self.inventory.lock:
            member, action = self._found(region, parameters)
            now = self.clock.monotonic()
            action.ends_at = min(action.latest, now + action.heartbeat_seconds)
            self._watch(member, action)

    def complete(self, region: str, parameters: dict[str, Any]) -> None:
        """Complete the action with a result. Raises RequestRefused."""
        result = parameters.get("LifecycleActionResult")
        if result not in (CONTINUE, ABANDON):
            raise RequestRefused(INVALID, "LifecycleActionResult must be CONTINUE or ABANDON")
        with self.inventory.lock:
            member, action = self._found(region, parameters)
            self._close(member, action, result)

    def _opened(self, hook: Any) -> Action:
        now, seconds = self.clock.monotonic(), float(hook.heartbeat_timeout)
        latest = now + global_timeout(seconds)
        token = str(uuid.UUID(hex=secrets.token_hex(16)))
        return Action(hook.name, token, seconds, hook.default_result, now + seconds, latest)

    def _watch(self, member: Member, action: Action) -> None:
        self.timers.after(
            max(0.0, action.ends_at - self.clock.monotonic()),
            lambda: self._expire(member, action),
        )

    def _expire(self, member: Member, action: Action) -> None:
        """Close the action if it is due. A heartbeat may have moved its end since this timer was set."""
        with self.inventory.lock:
            if action in member.actions and self.clock.monotonic() >= action.ends_at:
                self._close(member, action, action.default_result)

    def _close(self, member: Member, action: Action, result: str) -> None:
        """Close one action. ABANDON also closes all other actions of the member."""
        member.actions.remove(action)
        if result == ABANDON:
            member.actions.clear()
        if not member.actions:
            self._finish(member)

    def _finish(self, member: Member) -> None:
        member.state = "Terminating:Proceed"
        if member.instance.state not in TERMINATION_STATES:
            self.inventory.terminate(member.instance)

    def _found(self, region: str, parameters: dict[str, Any]) -> tuple[Member, Action]:
        group, hook = parameters.get("AutoScalingGroupName"), parameters.get("LifecycleHookName")
        token, instance_id = parameters.get("LifecycleActionToken"), parameters.get("InstanceId")
        _group(region, str(group))
        for member in self.members(region, [instance_id] if instance_id else []):
            for action in member.actions if member.group == group else ():
                if action.hook == hook and (token == action.token or (not token and instance_id)):
                    return member, action
        named = f"token {token}" if token else f"instance ID {instance_id}"
        raise RequestRefused(INVALID, f"No active Lifecycle Action found with {named}")


def _group(region: str, name: str) -> Any:
    found = autoscaling_backends[ACCOUNT_ID][region].autoscaling_groups.get(name)
    if found is None:
        raise RequestRefused(INVALID, f"AutoScalingGroup name not found - {name}")
    return found


def _hooks(region: str, group: str) -> list[Any]:
    hooks = autoscaling_backends[ACCOUNT_ID][region].describe_lifecycle_hooks(group)
    return [hook for hook in hooks if hook.lifecycle_transition == TERMINATING]


def _detail(member: Member, action: Action) -> dict[str, str]:
    return {
        "LifecycleActionToken": action.token,
        "AutoScalingGroupName": member.group,
        "LifecycleHookName": action.hook,
        "EC2InstanceId": member.instance.instance_id,
        "LifecycleTransition": TERMINATING,
        "Origin": "AutoScalingGroup",
        "Destination": "EC2",
    }
