"""The terminator's queue of open terminations: one task for each, and each is found again after a crash.

What may go wrong: thousands at once. Then each takes its steps more rarely, so that all together ask the API server no
more than it can answer; a drain that waits for ever holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from services.terminator.drain.lifecycle_hooks import LifecycleDrains, needs_drain
from services.terminator.orphaned_instances import OrphanedInstances
from services.terminator.ports import Ports
from services.terminator.termination import Termination
from services.terminator.waiting.changes import Mark, MirrorChanges
from services.terminator.waiting.step import AGAIN, DONE, Next, Wait
from shared.concurrency.backoff import doubled
from shared.concurrency.tasks import TaskGroup
from shared.concurrency.waiting import pause
from shared.domain import labels as keys
from shared.domain.nodes import is_of_auto_mode
from shared.errors import Conflict, DovetailError
from shared.kube.machines import split_key
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES, Resource
from shared.log import get_logger
from shared.redis.bus import Envelope
from shared.redis.bus.trace_context import current_trace
from shared.redis.messages import DrainNode, EndInstance, TerminateMachine, decode

log = get_logger(__name__)

STEPS_AT_ONCE = 100
STEPS_PER_SECOND = 100
"""A step costs about three requests. 200 drains take a step every 2 s, 1000 every 10 s; more seldom where the mirror
shows no change."""
LONGEST_PAUSE_SECONDS = 10.0
NODE = "Node"
DRAIN = "Drain"
"""A node that no pool owns, and whose lifecycle hook waits."""
INSTANCE = "Instance"
"""An instance that no Machine owns."""


class Listed(NamedTuple):
    """What the resync reads of a Machine's or node's metadata."""

    name: str
    owners: frozenset[tuple[str, str]]
    """(kind, name)."""
    leaves: bool
    """It is being deleted and has our finalizer."""
    waits_for_drain: bool
    """A lifecycle hook waits for its drain, if it is a node."""


@dataclass
class TerminationQueue:
    """Open terminations by (kind, name)."""

    ports: Ports
    termination: Termination
    lifecycle_drains: LifecycleDrains
    orphans: OrphanedInstances
    changes: MirrorChanges
    last_progress: float = 0.0
    """Monotonic time of the last check for new terminations."""
    _new: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    _open: set[tuple[str, str]] = field(default_factory=set)

    @property
    def open(self) -> list[str]:
        return sorted(f"{kind}/{name}" for kind, name in self._open)

    async def handle(self, envelope: Envelope) -> None:
        """A message about this object. Its deletion timestamp decides, not the message."""
        message = decode(envelope)
        if isinstance(message, TerminateMachine):
            self.termination.traces.ordered(message.key, current_trace.get())
            self.add(message.kind, message.name)
        elif isinstance(message, DrainNode):
            self.add(DRAIN, message.node)
        elif isinstance(message, EndInstance):
            log.info("asked to end an instance", id=message.instance, reason=message.reason)
            self.add(INSTANCE, message.instance)

    async def resync(self) -> None:
        """List everything that is being deleted (R2). A node whose Machine is being deleted too goes with it."""
        before = len(self._open)
        going = set()
        for resource in (MACHINES, NODE_CLAIMS):
            for one in await self._all(resource):
                if one.leaves:
                    going.add((resource.kind, one.name))
                    self.add(resource.kind, one.name)
        for one in await self._all(NODES):
            if one.waits_for_drain:
                self.add(DRAIN, one.name)
            if one.leaves and not one.owners & going:
                self.add(NODE, one.name)
        self.ports.metrics.resync_found_work.labels("terminator").inc(
            max(0, len(self._open) - before)
        )

    async def _all(self, resource: Resource) -> Sequence[Listed]:
        """Metadata tells all that is asked here: whole nodes are ten times as long, with a list of their images."""
        return await self.ports.kube.read_all(resource, _listed, metadata_only=True)

    def add(self, kind: str, name: str) -> None:
        """Work on this object from now on, unless it is open already."""
        if (kind, name) not in self._open:
            self._open.add((kind, name))
            self._new.put_nowait((kind, name))

    async def step(self, kind: str, name: str) -> Next:
        """The next step for one object."""
        if kind == DRAIN:
            return await self.lifecycle_drains.step(name)
        if kind == INSTANCE:
            return await self.orphans.step(name)
        if kind != NODE:
            return await self.termination.step_machine(f"{kind}/{name}")
        machine = await self.termination.machine_of(name)
        if machine:
            self.add(*split_key(machine))
            return DONE
        return await self.termination.step_node(name)

    async def run(self, stop: asyncio.Event) -> None:
        """Work on everything that is open until ``stop``."""
        gate = asyncio.Semaphore(STEPS_AT_ONCE)
        async with TaskGroup() as group:
            while not stop.is_set():
                self.last_progress = self.ports.clock.monotonic()
                try:
                    item = await asyncio.wait_for(self._new.get(), 1.0)
                except TimeoutError:
                    continue
                group.create_task(self._terminate(item, gate, stop))

    async def _terminate(
        self, item: tuple[str, str], gate: asyncio.Semaphore, stop: asyncio.Event
    ) -> None:
        try:
            await self._until_done("/".join(item), partial(self.step, *item), gate, stop)
        finally:
            self._open.discard(item)

    async def _until_done(
        self,
        name: str,
        step: Callable[[], Awaitable[Next]],
        gate: asyncio.Semaphore,
        stop: asyncio.Event,
    ) -> None:
        failures = 0
        while not stop.is_set():
            left: Next = AGAIN
            before = self.changes.mark()
            try:
                async with gate:
                    left = await step()
                if left is DONE:
                    return
                failures = 0
            except (
                Conflict
            ):  # the object changed since it was read, which is no failure of the step
                failures = 0
            except DovetailError as error:
                log.warning("termination step failed", name=name, error=error.message)
                failures += 1
            await self._pause(left, before, failures, stop)

    async def _pause(self, left: Next, before: Mark, failures: int, stop: asyncio.Event) -> None:
        """Pause until the next step is due. ``before``: what was known before this one."""
        while await pause(stop, self._seconds(failures)):
            if not isinstance(left, Wait) or await self.changes.due(left, before):
                return

    def _seconds(self, failures: int) -> float:
        """Seconds to the next step of one termination. ``failures``: how many steps in a row failed."""
        slow = doubled(failures, first=self.ports.settings.poll_seconds, cap=LONGEST_PAUSE_SECONDS)
        return max(slow, len(self._open) / STEPS_PER_SECOND)


def _listed(raw: Mapping[str, Any]) -> Listed:
    meta = raw["metadata"]
    ours = keys.FINALIZER in (meta.get("finalizers") or ())
    ours = ours and not is_of_auto_mode(meta.get("labels") or {})
    owners = meta.get("ownerReferences") or ()
    return Listed(
        name=meta["name"],
        owners=frozenset((str(one.get("kind")), str(one.get("name"))) for one in owners),
        leaves=bool(meta.get("deletionTimestamp")) and ours,
        waits_for_drain=needs_drain(raw),
    )
