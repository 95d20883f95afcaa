"""The owner of an instance, by its tags alone (LCH-56, LCH-81, LCH-83). Pure."""

from __future__ import annotations

from shared.cloud.ec2.records import Instance
from shared.domain import labels as keys

TOKEN_TAG = "dovetail.sh/launch-token"  # a tag key, no secret
CLUSTER_NAME_TAG = "eks:eks-cluster-name"
NAME_TAG = "Name"
"""What the AWS console shows as the name."""
GONE_STATES = frozenset({"shutting-down", "terminated"})
"""An instance never leaves these states."""
STOPPED_STATES = frozenset({"stopping", "stopped"})
"""Somebody may start it again, so it stays its machine's instance until it is ended."""


def cluster_tag(cluster: str) -> str:
    """The ownership tag's key."""
    return f"kubernetes.io/cluster/{cluster}"


def is_ours(instance: Instance, cluster: str) -> bool:
    """Whether Dovetail launched it (either API generation), or its tags name a NodePool, a class and this cluster."""
    tags = instance.tags
    launched = tags.get(cluster_tag(cluster)) == "owned" and TOKEN_TAG in tags
    pooled = {keys.NODE_POOL, keys.NODE_CLASS} <= tags.keys()
    return launched or (pooled and tags.get(CLUSTER_NAME_TAG) == cluster)


def may_be_ended(instance: Instance, cluster: str) -> bool:
    """Whether the terminator's policy allows its end: by this tag alone. Every launch sets it; a person can leave it
    out of a copy or take it off."""
    return instance.tags.get(cluster_tag(cluster)) == "owned"


def pool_of(instance: Instance) -> str:
    """The key of the pool in the instance's tags; empty without one."""
    if name := instance.tags.get(keys.NODE_POOL):
        return f"NodePool/{name}"
    name = instance.tags.get(keys.PROVISIONER_NAME)
    return f"Provisioner/{name}" if name else ""


def machine_of(instance: Instance) -> str:
    """The key of the machine in the instance's tags; empty when a shared fleet call launched it and no tag was set."""
    name = instance.tags.get(keys.NODE_CLAIM_TAG) or instance.tags.get(keys.MACHINE_TAG)
    kind = "NodeClaim" if keys.NODE_CLASS in instance.tags else "Machine"
    return f"{kind}/{name}" if name else ""
