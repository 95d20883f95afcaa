"""One function per message that the launcher reads, and the timed look that does without messages."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from services.launcher.launch import Launch
from services.launcher.node_classes import NodeClasses
from services.launcher.registration import Registration
from shared.api.nodes import parse_node
from shared.bus import Envelope, RetryLater
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.messages import LaunchMachine, MachineTerminated, NodeClassChanged, NodeJoined, decode
from shared.metrics import Metrics

log = get_logger(__name__)

LAUNCHES_AT_ONCE = 16


@dataclass
class Handlers:
    """The launcher's side of the streams ``launches`` and ``machines``."""

    kube: Kube
    machine_store: Machines
    launch: Launch
    registration: Registration
    node_classes: NodeClasses
    metrics: Metrics

    async def launches(self, envelope: Envelope) -> None:
        """A Machine waits for its instance."""
        message = decode(envelope)
        if isinstance(message, LaunchMachine):
            await self.launch.launch(message.machine)

    async def machines(self, envelope: Envelope) -> None:
        """A node joined or changed, or a node class was edited."""
        message = decode(envelope)
        if isinstance(message, NodeJoined):
            await self.registration.node_changed(message.node)
        elif isinstance(message, NodeClassChanged):
            await self.node_classes.refresh_one(message.node_class)
        elif isinstance(message, MachineTerminated):
            await self.node_classes.release_leaving()

    async def resync(self) -> None:
        """List our own work from the API server: what a lost message would have said (R2)."""
        machines = list(await self.machine_store.list())
        nodes = [parse_node(raw) for raw in (await self.kube.list(NODES)).items]
        gate = asyncio.Semaphore(LAUNCHES_AT_ONCE)
        waiting = [m.key for m in machines if not m.provider_id and not m.terminating]
        await asyncio.gather(*(self._launch(key, gate) for key in waiting))
        found = await self.registration.review(machines, nodes)
        self.metrics.resync_found_work.labels("launcher").inc(len(waiting) + found)

    async def _launch(self, key: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            try:
                await self.launch.launch(key)
            except RetryLater:
                return  # the next look comes by itself
            except DovetailError as error:
                log.warning("launch failed", machine=key, error=error.message)
