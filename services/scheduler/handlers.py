"""One function per message that the scheduler reads. All of them only say: look again."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from services.scheduler.planning import Planner
from services.scheduler.view import View, waiting_pods
from shared.bus import Envelope, RetryLater
from shared.messages import (
    InterruptionReceived,
    LaunchFailed,
    MachineTerminated,
    PodUnschedulable,
    decode,
)
from shared.mirror import Change

RETRY_SECONDS = 1.0


class _Leaving(msgspec.Struct):
    """The only part of a Node or Machine record that ``Departures`` needs."""

    terminating: bool = False


_LEAVING = msgspec.json.Decoder(_Leaving)


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
        """Pods that are promised a machine too: the mirror may not show yet that theirs is the one that is gone."""
        for pod in (*self.planner.waiting(), *waiting_pods(self.view.pods())):
            self.planner.trigger(pod.uid)


@dataclass
class Departures:
    """Machines and nodes that begin to leave, whoever ordered it: their pods join the batch (POD-09, INT-22).

    Each opens the window once; later changes of the same object would only put the plan off.
    """

    planner: Planner
    _known: set[str] = field(default_factory=set)

    def note(self, change: Change) -> None:
        """Follow one change of a Node or Machine in the mirror."""
        name = f"{change.kind}/{change.key}"
        if change.body is None:
            self._known.discard(name)
        elif name not in self._known and _is_leaving(change.body):
            self._known.add(name)
            self.planner.trigger(name)


def _is_leaving(body: bytes) -> bool:
    try:
        return _LEAVING.decode(body).terminating
    except msgspec.MsgspecError:
        return False  # the view, which decodes all of it, says what is wrong
