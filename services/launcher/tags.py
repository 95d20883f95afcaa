"""Tags that say whose an instance or a launch template is: pure (LCH-23, LCH-56)."""

from __future__ import annotations

from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, cluster_tag
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodeClass


def instance_tags(machine: Machine, node_class: NodeClass, cluster: str) -> dict[str, str]:
    """LCH-56: what the instances of a machine carry, whichever machine of its kind it is.

    Of the user's own tags only Name wins, and in v1alpha5 only.
    """
    owned = {cluster_tag(cluster): "owned"}
    if machine.api.own_tags:
        return {**node_class.tags, **owned, **v1_tags(machine, node_class, cluster)}
    return {
        "Name": f"karpenter.sh/provisioner-name/{machine.pool}",
        **node_class.tags,
        **owned,
        keys.PROVISIONER_NAME: machine.pool,
        keys.MANAGED_BY: cluster,
    }


def v1_tags(machine: Machine, node_class: NodeClass, cluster: str) -> dict[str, str]:
    """LCH-23, LCH-56: the tags that say whose an instance or a template is. A machine without pool has an empty one."""
    return {
        keys.NODE_POOL: machine.pool,
        CLUSTER_NAME_TAG: cluster,
        keys.NODE_CLASS: node_class.name,
    }
