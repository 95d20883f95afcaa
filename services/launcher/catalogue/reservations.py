"""Machines in capacity reservations (LCH-84): once a minute, what left its reservation is on-demand; every few seconds,
what is in a capacity block that ends is deleted, and what is left is published for the scheduler.

EC2 moves an instance out of a reservation that ends or is cancelled, and the machine then costs money. Its labels and
those of its node say so, or consolidation would keep it for free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from services.launcher.machine_writer import MachineWriter
from services.launcher.node_class.capacity_reservations import is_ending
from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from shared.domain import labels as keys
from shared.domain.instance_types.reservations import ID_LABEL
from shared.domain.machines.machine import Machine
from shared.domain.nodes import provider_instance_id
from shared.errors import Conflict, NotFound
from shared.kube.machines import Machines
from shared.kube.reading import or_none
from shared.kube.resources import NODES
from shared.log import get_logger

log = get_logger(__name__)

PERIOD_SECONDS = 60.0
UPDATE_SECONDS = 5.0
"""So long the pools of a class wait whose reservations Redis lost. EC2 is asked once a minute all the same."""
BLOCK_ENDS = "capacity_block_expiring"
_RESERVATION_LABELS = ("id", "type", "interruptible")


def on_demand_labels() -> dict[str, Any]:
    """A merge patch of labels: None takes one off."""
    gone = {f"{keys.AWS_PREFIX}capacity-reservation-{name}": None for name in _RESERVATION_LABELS}
    return {**gone, keys.CAPACITY_TYPE: keys.ON_DEMAND}


@dataclass
class Reservations:
    """Compares the labels of reserved machines with what EC2 says of their instances, publishes reservations for the
    scheduler, and deletes the machines of capacity blocks that end.
    """

    ports: Ports
    machines: Machines
    listed: Callable[[], Sequence[Machine]]
    """The machines as they were listed last."""
    node_classes: NodeClasses
    writer: MachineWriter

    async def relabel(self) -> None:
        """Relabel those whose instance left its reservation."""
        reserved = {
            provider_instance_id(machine.provider_id): machine
            for machine in self.listed()
            if machine.capacity_type == keys.RESERVED and not machine.terminating
        }
        reserved.pop("", None)
        if not reserved:
            return
        for instance in await self.ports.cloud.ec2.instances(ids=reserved):
            if not instance.capacity_reservation_id:
                await self._relabel(reserved[instance.id])

    async def _relabel(self, machine: Machine) -> None:
        # The node before the machine: the machine's label is what finds it again after a crash in between.
        try:
            await self._relabel_node(machine)
            await self.machines.patch(machine, {"labels": on_demand_labels()})
        except (NotFound, Conflict) as error:
            log.info("changed meanwhile", machine=machine.name, error=error.message)
            return
        log.info(
            machine.api.worded("nodeclaim left its capacity reservation"), machine=machine.name
        )

    async def _relabel_node(self, machine: Machine) -> None:
        if not machine.node_name:
            return
        raw = await or_none(self.ports.kube.get(NODES, machine.node_name))
        if raw is not None and raw["spec"].get("providerID") == machine.provider_id:
            metadata = {"uid": raw["metadata"]["uid"], "labels": on_demand_labels()}
            await self.ports.kube.patch(NODES, machine.node_name, {"metadata": metadata})

    async def update(self) -> None:
        """Publish what is left of them, and end blocks. Without a class that selects any, EC2 is not asked."""
        ready = [resolved.node_class for resolved in self.node_classes.ready().values()]
        selecting = [one for one in ready if one.reservation_terms]
        for node_class in selecting:
            await self.node_classes.reservations.publish(node_class)
        if selecting:
            await self._end_blocks()

    async def _end_blocks(self) -> None:
        """EC2 takes the machines of a block back before its end; their pods move while there is time (LCH-84)."""
        now = self.ports.clock.now()
        ending = {
            one.id for one in await self.node_classes.reservations.listed() if is_ending(one, now)
        }
        for machine in await self.machines.list() if ending else ():
            if machine.terminating or machine.labels.get(ID_LABEL) not in ending:
                continue
            if await self.writer.delete(machine, BLOCK_ENDS):
                self.ports.metrics.count_disrupted(machine, BLOCK_ENDS)
                log.info(
                    machine.api.worded("deleting nodeclaim, its capacity block ends"),
                    machine=machine.name,
                )
