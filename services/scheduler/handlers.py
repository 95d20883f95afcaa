"""One function per message that the scheduler reads. All of them only say: look again."""

from __future__ import annotations

from dataclasses import dataclass

from services.scheduler.planning import Planner
from services.scheduler.view import View
from shared.bus import Envelope, RetryLater
from shared.messages import (
    InterruptionReceived,
    LaunchFailed,
    MachineTerminated,
    PodUnschedulable,
    decode,
)

RETRY_SECONDS = 1.0


@dataclass
class Handlers:
    """The scheduler's side of the streams ``pods``, ``machines`` and ``interruptions``."""

    planner: Planner
    view: View

    async def pods(self, envelope: Envelope) -> None:
        """A pod waits: it joins the window once the mirror shows it."""
        message = decode(envelope)
        if isinstance(message, PodUnschedulable):
            self.planner.trigger(message.uid)

    async def machines(self, envelope: Envelope) -> None:
        """A launch failed or a machine is gone: pods that counted on it wait again."""
        if isinstance(decode(envelope), LaunchFailed | MachineTerminated):
            self._trigger_waiting()

    async def interruptions(self, envelope: Envelope) -> None:
        """EC2 takes instances back: their pods need new ones while they drain (INT-22)."""
        message = decode(envelope)
        if not isinstance(message, InterruptionReceived):
            return
        if not self.view.reader.complete:
            raise RetryLater(RETRY_SECONDS)
        self.planner.trigger(f"interruption/{message.event}")

    def _trigger_waiting(self) -> None:
        for pod in self.planner.waiting():
            self.planner.trigger(pod.uid)
