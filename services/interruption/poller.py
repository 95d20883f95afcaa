"""SQS -> deletions: receive, handle, delete (INT-03, INT-04, INT-20..23).

The order makes it safe: the Machine is deleted on the API server before the message is deleted from the queue. A
failed handling leaves the message, and SQS gives it back after 20 s; handling it twice changes nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from services.interruption.actions import Action, action_for
from services.interruption.parsers import NO_OP, Interruption, parse
from shared import streams
from shared.api.references import to_machine
from shared.bus import BadMessage, Bus
from shared.clock import Clock
from shared.cloud.session import Cloud
from shared.cloud.sqs import QueueMessage
from shared.domain.machines import Machine
from shared.domain.nodes import provider_instance_id
from shared.domain.records import MACHINES as MACHINE_RECORDS
from shared.domain.records import decode_record
from shared.errors import DovetailError, NotFound, TransientError
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.messages import InterruptionReceived, Message, TerminateMachine, send
from shared.metrics import Metrics
from shared.mirror import MirrorReader
from shared.mirror.offerings import UnavailableOfferings
from shared.runtime import pause
from shared.settings import InterruptionSettings

log = get_logger(__name__)

AT_ONCE = 10
PAUSE_AFTER_ERROR_SECONDS = 5.0
EVENT_DEDUPE_SECONDS = 120.0


@dataclass
class Poller:
    """Reads one queue."""

    settings: InterruptionSettings
    cloud: Cloud
    machines: Machines
    bus: Bus
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    unavailable: UnavailableOfferings
    mirror: MirrorReader
    url: str = ""
    problem: str = ""
    handled: dict[str, int] = field(default_factory=dict)
    last_progress: float = 0.0
    """Monotonic time of the last poll that SQS answered."""

    async def run(self, stop: asyncio.Event) -> None:
        """Poll until ``stop``."""
        while not stop.is_set():
            try:
                if not self.url:
                    self.url = await self.cloud.sqs.queue_url(self.settings.interruption_queue)
                    log.info("reading interruption queue", url=self.url)
                await self._poll(stop)
                self.problem = ""
                self.last_progress = self.clock.monotonic()
            except NotFound:
                self._complain(
                    f"queue {self.settings.interruption_queue} does not exist; "
                    "create it or mend INTERRUPTION_QUEUE"
                )
                await pause(stop, PAUSE_AFTER_ERROR_SECONDS)
            except DovetailError as error:
                self._complain(error.message)
                await pause(stop, PAUSE_AFTER_ERROR_SECONDS)

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            log.error("cannot read the interruption queue", problem=problem)
        self.problem = problem

    async def _receive(self, stop: asyncio.Event) -> list[QueueMessage]:
        """The next messages; none when ``stop`` comes first. What SQS had handed out by then comes again."""
        wait_seconds = self.settings.receive_wait_seconds
        receiving = asyncio.ensure_future(
            self.cloud.sqs.receive(self.url, wait_seconds=wait_seconds)
        )
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((receiving, stopping), return_when=asyncio.FIRST_COMPLETED)
            return await receiving if receiving.done() else []
        finally:
            receiving.cancel()
            stopping.cancel()

    async def _poll(self, stop: asyncio.Event) -> None:
        messages = await self._receive(stop)
        gate = asyncio.Semaphore(AT_ONCE)
        done = await asyncio.gather(*(self._handle(message, gate) for message in messages))
        receipts = [receipt for receipt in done if receipt]
        if receipts:
            await self.cloud.sqs.delete(self.url, receipts)
            self.metrics.interruptions_deleted.inc(len(receipts))

    async def _handle(self, message: QueueMessage, gate: asyncio.Semaphore) -> str:
        """The receipt when the message is done with, empty when it must come again."""
        async with gate:
            try:
                await self.handle(parse(message.body))
            except BadMessage as error:
                log.warning("unreadable interruption message", id=message.id, error=str(error))
                self.metrics.interruptions_received.labels("unreadable").inc()
            except DovetailError as error:
                log.warning("interruption not handled, it comes again", error=error.message)
                return ""
            return message.receipt

    async def handle(self, interruption: Interruption) -> None:
        """Act on one interruption. Raises when the API server cannot be told."""
        self.metrics.interruptions_received.labels(interruption.kind).inc()
        self.handled[interruption.kind] = self.handled.get(interruption.kind, 0) + 1
        action = action_for(interruption.kind)
        if action is None or interruption.kind == NO_OP:
            return
        machines = await self._machines(interruption.instances)
        for machine in machines:
            await self._act(machine, action, interruption)
        if machines and action.delete:
            received = InterruptionReceived(
                kind=interruption.kind,
                instances=interruption.instances,
                deadline=interruption.deadline,
                event=interruption.event,
            )
            await self._tell(streams.INTERRUPTIONS, received, interruption.event)

    async def _machines(self, instances: tuple[str, ...]) -> list[Machine]:
        """INT-07. By the mirror; when it is not there, by the API server."""
        wanted = set(instances)
        if self.mirror.complete:
            bodies = self.mirror.kinds.get(MACHINE_RECORDS, {}).values()
            known: list[Machine] = [decode_record(MACHINE_RECORDS, body) for body in bodies]
            found = [m for m in known if provider_instance_id(m.provider_id) in wanted]
            if found:
                return found
        machines = await self.machines.list()
        return [m for m in machines if provider_instance_id(m.provider_id) in wanted]

    async def _act(self, machine: Machine, action: Action, interruption: Interruption) -> None:
        if action.shortage and machine.zone:
            offering = (machine.capacity_type, machine.instance_type, machine.zone)
            await self._mark(offering)
        await self._event(
            machine, "Warning" if action.warning else "Normal", action.reason, action.text
        )
        if not action.delete or machine.terminating:
            return
        if not await self.machines.delete(machine):
            return
        log.info(
            "initiating delete from interruption message",
            machine=machine.name,
            kind=interruption.kind,
        )
        self.metrics.machines_disrupted.labels(
            interruption.kind, machine.pool, machine.capacity_type
        ).inc()
        await self._event(
            machine, "Warning", "TerminatingOnInterruption", "Interruption triggered termination"
        )
        order = TerminateMachine.of(machine, interruption.kind)
        await self._tell(streams.TERMINATIONS, order, interruption.event)

    async def _mark(self, offering: tuple[str, str, str]) -> None:
        try:
            await self.unavailable.mark([offering], seconds=self.settings.unavailable_seconds)
        except TransientError as error:
            log.warning("cannot mark the offering", offering=offering, error=error.message)

    async def _event(self, machine: Machine, kind: str, reason: str, text: str) -> None:
        await self.recorder.publish(
            to_machine(machine), kind, reason, text, dedupe_seconds=EVENT_DEDUPE_SECONDS
        )

    async def _tell(self, stream: str, message: Message, cause: str) -> None:
        # The deletion timestamp is written: watcher and terminator find it without this bell.
        await send(self.bus, stream, message, cause=cause, clock=self.clock)
