"""Instances that terminated without a call of TerminateInstances, and the reason that EC2 gives (LCH-67, ACC-39). Pure.

EC2's StateReason gives the cause: ``Client.UserInitiatedShutdown`` is an API call (Dovetail's calls included),
``Server.Spot...`` is a spot interruption, and any other cause would terminate the next instance as well.
"""

from __future__ import annotations

from typing import Final

from shared.cloud.ec2.records import Instance

TERMINATED_REASON = "InstanceTerminated"
"""Reason of the event."""
STOPPED_REASON: Final = "InstanceStopped"
"""The same for a machine that is deleted because its instance was stopped."""
STOPPED_TEXT = "its instance was stopped before its node joined"
_USER_INITIATED = "Client.UserInitiated"
_SPOT_INTERRUPTED = "Server.Spot"
_KEY_UNUSABLE = "InternalError"
_ENDED_STATES = frozenset({"shutting-down", "terminated"})


def ended_by_itself(instance: Instance) -> bool:
    """Whether the instance terminated, and EC2 gives a cause other than an API call."""
    reason = instance.state_reason
    ended = instance.state in _ENDED_STATES
    return ended and bool(reason) and not reason.startswith(_USER_INITIATED)


def would_end_again(instance: Instance) -> bool:
    """Whether the next instance would terminate for the same cause; False after an API call or a spot interruption."""
    return ended_by_itself(instance) and not instance.state_reason.startswith(_SPOT_INTERRUPTED)


def termination_message(instance: Instance) -> str:
    """The event's message: EC2's reason, and its usual cause."""
    reason = instance.state_reason or "no reason given"
    text = f"the instance terminated without a request from Dovetail: {reason}"
    if _KEY_UNUSABLE in instance.state_reason:
        text += "; may the node role and the spot role use the KMS key of its volumes?"
    return text
