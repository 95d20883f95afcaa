"""One function per stream that the launcher reads, and the timed listing that does without messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.launcher.drift.controller import DriftController
from services.launcher.launch.controller import LaunchController
from services.launcher.lifecycle.controller import LifecycleController
from services.launcher.lifecycle.nodes import cluster_nodes
from services.launcher.lifecycle.stages import is_open
from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from shared.domain.machines.machine import Machine
from shared.kube.machines import Machines
from shared.redis.bus import Envelope
from shared.redis.messages import (
    LaunchMachine,
    MachineTerminated,
    NodeClassChanged,
    NodeJoined,
    NodePoolChanged,
    decode,
)

LAUNCH_WAIT_SECONDS = 10.0
"""So long the timed listing waits for the launches that it began. They go on without it."""


@dataclass
class Handlers:
    """The launcher's side of the streams ``launches`` and ``machines``."""

    ports: Ports
    machine_store: Machines
    launch: LaunchController
    lifecycle: LifecycleController
    node_classes: NodeClasses
    drift: DriftController
    listed: Sequence[Machine] = field(default=(), init=False)
    """The readable machines of the last timed listing, for loops whose writes tell when one has changed since."""

    async def launches(self, envelope: Envelope) -> None:
        """A Machine waits for its instance."""
        message = decode(envelope)
        if isinstance(message, LaunchMachine):
            await self.launch.launch(message.machine)

    async def machines(self, envelope: Envelope) -> None:
        """A node joined or changed, or a pool or a node class was edited."""
        message = decode(envelope)
        if isinstance(message, NodeJoined):
            await self.lifecycle.node_changed(message.node)
        elif isinstance(message, NodeClassChanged):
            await self.node_classes.refresh_one(message.node_class)
            self.drift.changed(message.node_class)
        elif isinstance(message, NodePoolChanged):
            self.drift.changed(message.pool)
        elif isinstance(message, MachineTerminated):
            await self.node_classes.release_leaving()

    async def resync(self) -> None:
        """List the launcher's work from the API server, which also finds the work of lost messages (R2)."""
        machines = list(await self.machine_store.list())
        self.listed = machines
        # Nodes matter to machines on their way only: a cluster at rest need not list them four times a minute.
        on_the_way = any(map(is_open, machines))
        nodes = (await cluster_nodes(self.ports.kube)).readable if on_the_way else []
        waiting = [m.key for m in machines if not m.provider_id and not m.terminating]
        begun = [self.launch.begin(key) for key in waiting]
        found = await self.lifecycle.review(machines, nodes)
        if (
            begun
        ):  # what they raise is on the machines already, and the next listing comes by itself
            await asyncio.wait(begun, timeout=LAUNCH_WAIT_SECONDS)
        self.ports.metrics.resync_found_work.labels("launcher").inc(len(waiting) + found)
