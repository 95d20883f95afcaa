"""Nodes of ours without a Machine, whose instance EC2 calls terminated, are deleted (LCH-81, F24).

A cloud controller deletes them where one runs; this serves clusters without one. Only the state that EC2 tells counts:
a node whose instance is merely not listed stays. The deletion is an order, which the terminator carries out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.launcher.garbage_collection.confirmation import Confirmation
from services.launcher.garbage_collection.inventory import Inventory
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.ownership import GONE_STATES
from shared.concurrency.clock import Clock
from shared.domain.nodes import Node, provider_instance_id, provider_zone
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.settings import LauncherSettings

log = get_logger(__name__)


def orphaned_nodes(inventory: Inventory) -> list[Node]:
    """Nodes that are ours, not Ready, owned by nobody, and whose instance is not listed as alive."""
    return [
        node
        for node in inventory.nodes.readable
        if node.is_managed
        and not node.ready
        and not node.terminating
        and (instance := provider_instance_id(node.provider_id))
        and instance not in inventory.owned
        and provider_zone(node.provider_id) not in inventory.shifted
        and not inventory.alive(instance)
    ]


@dataclass
class OrphanedNodes:
    """Deletes nodes whose loss is confirmed."""

    kube: Kube
    cloud: Cloud
    clock: Clock
    settings: LauncherSettings
    seen: Confirmation = field(default_factory=Confirmation)

    async def end(self, inventory: Inventory) -> None:
        """Delete those that this sweep confirms."""
        lost = {node.uid: node for node in orphaned_nodes(inventory)} if inventory.readable else {}
        now, grace = self.clock.monotonic(), self.settings.garbage_grace
        nodes = [lost[uid] for uid in self.seen.confirmed(lost, now=now, grace=grace)]
        if not nodes:
            return
        ids = [provider_instance_id(node.provider_id) for node in nodes]
        found = await self.cloud.ec2.instances(ids=ids)
        ended = {one.id for one in found if one.state in GONE_STATES}
        for node in nodes:
            if provider_instance_id(node.provider_id) in ended:
                await self._delete(node)

    async def _delete(self, node: Node) -> None:
        try:
            await self.kube.delete(NODES, node.name, uid=node.uid)
        except (NotFound, Conflict):
            return
        log.info("garbage collecting node without machine and instance", node=node.name)
