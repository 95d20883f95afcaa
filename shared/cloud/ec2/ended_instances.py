"""Instances that ended without an order of ours, in EC2's own words (LCH-67, ACC-39).

Pure. EC2's StateReason tells who ended an instance: ``Client.UserInitiatedShutdown`` is an API call, ours among them,
``Server.Spot...`` is EC2 taking spot capacity back, and the rest would happen to the next instance as well.
"""

from __future__ import annotations

from shared.cloud.ec2.records import Instance

ENDED = "InstanceTerminated"
"""Reason of the event."""
_ORDERED = "Client.UserInitiated"
_TAKEN_BACK = "Server.Spot"
_NO_KEY = "InternalError"
_ENDED_STATES = frozenset({"shutting-down", "terminated"})


def ended_by_itself(instance: Instance) -> bool:
    """Nobody asked for it, as far as EC2 says."""
    ended = instance.state in _ENDED_STATES
    return ended and bool(instance.state_reason) and not instance.state_reason.startswith(_ORDERED)


def would_end_again(instance: Instance) -> bool:
    """So would the next one of its kind; not one that somebody ended, or whose spot capacity was taken back."""
    return ended_by_itself(instance) and not instance.state_reason.startswith(_TAKEN_BACK)


def ending_of(instance: Instance) -> str:
    """EC2's words, and what they usually mean."""
    reason = instance.state_reason or "no reason given"
    text = f"the instance ended without an order from here: {reason}"
    if _NO_KEY in instance.state_reason:
        text += "; may the node role and the spot role use the KMS key of its volumes?"
    return text
