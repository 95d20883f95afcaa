"""What triggers a plan: messages on the scheduler's streams, and changes of the mirror.

Messages carry no orders: each only triggers a plan from the mirror. Pods that wait come by the stream ``pods``; a
change of the mirror triggers a plan for pods that lose their node, or that may find a place now. The planner lists all
pods that wait every few seconds besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from services.scheduler.provisioning.planner import Planner
from shared.domain.records import (
    CAPACITY_BUFFERS,
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    DEVICE_TEMPLATES,
    GANG_SIZES,
    NAMESPACES,
    NODE_CLASSES,
    NODE_OVERLAYS,
    NODE_POOLS,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUMES,
)
from shared.redis.bus import Envelope, RetryLater
from shared.redis.bus.trace_context import current_trace
from shared.redis.messages import (
    InterruptionReceived,
    LaunchFailed,
    MachineTerminated,
    PodUnschedulable,
    decode,
)
from shared.redis.mirror import Change, MirrorReader

RECONSIDERED = (
    NODE_POOLS, NODE_CLASSES, NODE_OVERLAYS, CLAIMS, VOLUMES, STORAGE_CLASSES, NAMESPACES,
    CAPACITY_BUFFERS, POD_TEMPLATES, PROVISIONING_REQUESTS, GANG_SIZES,
    DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS, CLAIM_TEMPLATES, DEVICE_TEMPLATES,
)  # fmt: skip
"""Kinds whose change may give a place to pods that had none, or ask for room."""
RETRY_SECONDS = 1.0


class _Object(msgspec.Struct):
    """The only part of a Node or Machine record that is needed here."""

    terminating: bool = False


_OBJECT = msgspec.json.Decoder(_Object)


@dataclass
class TerminationTrigger:
    """Machines and nodes that begin to terminate, whoever ordered it: their pods join the batch (POD-09, INT-22).

    Each triggers once: later changes of the same object would only delay the plan.
    """

    trigger: Callable[[str], None]
    _known: set[str] = field(default_factory=set)

    def note(self, change: Change) -> None:
        """Follow one change of a Node or Machine in the mirror."""
        name = f"{change.kind}/{change.key}"
        if change.body is None:
            self._known.discard(name)
        elif name not in self._known and _is_terminating(change.body):
            self._known.add(name)
            self.trigger(name)


def _is_terminating(body: bytes) -> bool:
    try:
        return _OBJECT.decode(body).terminating
    except msgspec.MsgspecError:
        return False  # the view, which decodes all of it, reports what is wrong


@dataclass
class Handlers:
    """The scheduler's side of the streams ``pods``, ``machines`` and ``interruptions``."""

    planner: Planner
    reader: MirrorReader

    async def pods(self, envelope: Envelope) -> None:
        """A pod waits: it joins the batch. The mirror has it before the message is sent."""
        message = decode(envelope)
        if isinstance(message, PodUnschedulable):
            self.planner.trace.note(message.uid, current_trace.get())
            self.planner.trigger(message.uid)

    async def machines(self, envelope: Envelope) -> None:
        """A launch failed or a machine is gone: pods that counted on it wait again."""
        if isinstance(decode(envelope), LaunchFailed | MachineTerminated):
            self.planner.trigger_unbound()

    async def interruptions(self, envelope: Envelope) -> None:
        """EC2 takes instances back: their pods need new ones while they drain (INT-22)."""
        message = decode(envelope)
        if not isinstance(message, InterruptionReceived):
            return
        if not self.reader.complete:
            raise RetryLater(RETRY_SECONDS)
        self.planner.trigger(f"interruption/{message.event}")
