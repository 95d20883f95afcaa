"""One function per stream that the scheduler reads. Messages carry no orders: each only triggers a plan from the
mirror."""

from __future__ import annotations

from dataclasses import dataclass

from services.scheduler.provisioning.planner import Planner
from shared.redis.bus import Envelope, RetryLater
from shared.redis.messages import (
    InterruptionReceived,
    LaunchFailed,
    MachineTerminated,
    PodUnschedulable,
    decode,
)
from shared.redis.mirror import MirrorReader

RETRY_SECONDS = 1.0


@dataclass
class Handlers:
    """The scheduler's side of the streams ``pods``, ``machines`` and ``interruptions``."""

    planner: Planner
    reader: MirrorReader

    async def pods(self, envelope: Envelope) -> None:
        """A pod waits: it joins the batch. The mirror has it before the message is sent."""
        message = decode(envelope)
        if isinstance(message, PodUnschedulable):
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
