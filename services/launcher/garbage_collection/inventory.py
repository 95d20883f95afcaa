"""Lists of everything that is ours, in EC2 and on the API server, by which garbage is judged.

Instances are read before Machines and Machines before records, so that a launch which goes on meanwhile shows at least
one of its three traces. What EC2 lists is checked again here: a filter that lets others' instances through must not
cost them their lives (F23).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.launcher.lifecycle.nodes import ClusterNodes, cluster_nodes
from shared.cloud.ec2.calls import Ec2
from shared.cloud.ec2.ownership import (
    CLUSTER_NAME_TAG,
    GONE_STATES,
    TOKEN_TAG,
    cluster_tag,
    is_ours,
)
from shared.cloud.ec2.records import Instance
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import provider_instance_id
from shared.kube.client import Kube
from shared.kube.machines import Machines, provider_id_in
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class Inventory:
    """``instances`` by id, whatever their state; ``owned``: instance ids that some Machine names."""

    instances: dict[str, Instance]
    machines: list[Machine]
    owned: frozenset[str]
    readable: bool
    """False: a Machine that cannot be read may own any instance."""
    records: dict[str, dict[str, Any]]
    """Open LaunchRecords by client token."""
    nodes: ClusterNodes
    unreadable_uids: frozenset[str] = frozenset()
    shifted: frozenset[str] = frozenset()
    """Zones that the cluster is shifted away from: what EC2 shows of them is nothing to judge by (GAT-03)."""

    def state(self, instance_id: str) -> str:
        """As EC2 lists it; empty for one that it does not list."""
        found = self.instances.get(instance_id)
        return found.state if found is not None else ""

    def alive(self, instance_id: str) -> bool:
        """Is it listed, and not on its way out?"""
        return self.state(instance_id) not in GONE_STATES | {""}


async def take_inventory(
    kube: Kube, store: Machines, ec2: Ec2, cluster: str, shifted: frozenset[str] = frozenset()
) -> Inventory:
    """Complete lists, or an error: a list that breaks off says nothing."""
    instances = await our_instances(ec2, cluster)
    machines, unreadable = await store.list_all()
    records = (await kube.list(LAUNCH_RECORDS)).items
    nodes = await cluster_nodes(kube)
    named = [provider_id_in(raw) for raw in unreadable]
    owners = [*(machine.provider_id for machine in machines), *named]
    return Inventory(
        instances=instances,
        machines=list(machines),
        owned=frozenset(provider_instance_id(one) for one in owners) - {""},
        readable=all(named),
        records={record["metadata"]["name"]: record for record in records},
        nodes=nodes,
        unreadable_uids=frozenset(raw["metadata"]["uid"] for raw in unreadable),
        shifted=shifted,
    )


async def our_instances(ec2: Ec2, cluster: str) -> dict[str, Instance]:
    """Those we launched, in either generation, and those of LCH-83: of this cluster, with a NodePool and a class, also
    when another Karpenter launched them. What only a v1alpha5 Karpenter knew is not ours to end.
    """
    launched = await ec2.instances(tags={cluster_tag(cluster): "owned"}, tag_keys=(TOKEN_TAG,))
    pooled = await ec2.instances(
        tags={CLUSTER_NAME_TAG: cluster}, tag_keys=(keys.NODE_POOL, keys.NODE_CLASS)
    )
    found = {one.id: one for one in (*launched, *pooled)}
    foreign = sorted(name for name, one in found.items() if not is_ours(one, cluster))
    if foreign:
        log.error("EC2 lists instances without our tags, passed over", instances=foreign[:10])
    return {name: one for name, one in found.items() if name not in foreign}
