"""The input of one plan: an immutable snapshot of the cluster and the catalogue at one mirror generation."""

from __future__ import annotations

import msgspec

from shared.domain.devices.records import (
    ClaimTemplate,
    DeviceClass,
    DeviceTemplate,
    ResourceClaim,
    ResourceSlice,
)
from shared.domain.instance_types.shortages import OfferingKey as OfferingKey
from shared.domain.instance_types.shortages import Shortages
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.nodes import DaemonSet, Node
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.workloads.by_node import by_node
from shared.domain.workloads.capacity_buffers import CapacityBuffer, PodTemplate
from shared.domain.workloads.namespaces import Namespace
from shared.domain.workloads.pdbs import PodDisruptionBudget
from shared.domain.workloads.pods import Pod, is_reschedulable
from shared.domain.workloads.provisioning_requests import ProvisioningRequest
from shared.domain.workloads.volumes import CsiNode, StorageClass, Volume, VolumeClaim


class Snapshot(msgspec.Struct, frozen=True):
    """The whole input of a plan. ``pods`` are all pods that are not terminal."""

    generation: int
    pods: tuple[Pod, ...]
    nodes: tuple[Node, ...]
    machines: tuple[Machine, ...]
    pools: tuple[NodePool, ...]
    node_classes: tuple[NodeClass, ...]
    daemon_sets: tuple[DaemonSet, ...]
    catalogue: Catalogue
    unavailable: frozenset[OfferingKey] = frozenset()
    claims: tuple[VolumeClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CsiNode, ...] = ()
    pdbs: tuple[PodDisruptionBudget, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    buffers: tuple[CapacityBuffer, ...] = ()
    pod_templates: tuple[PodTemplate, ...] = ()
    requests: tuple[ProvisioningRequest, ...] = ()
    shortages: Shortages = ()
    """What past shortages add to the prices of offerings when they are ordered."""
    device_classes: tuple[DeviceClass, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    claim_templates: tuple[ClaimTemplate, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    device_templates: tuple[DeviceTemplate, ...] = ()


def moving_pods(snapshot: Snapshot) -> frozenset[str]:
    """POD-09: UIDs of the pods on terminating nodes, which need capacity elsewhere before they are evicted."""
    # A machine without a node must not match pending pods, whose node name is empty too.
    going = {m.node_name for m in snapshot.machines if m.terminating and m.node_name}
    going |= {node.name for node in snapshot.nodes if node.terminating and node.is_managed}
    if not going:
        return frozenset()
    pods = by_node(snapshot.pods)
    return frozenset(
        pod.uid
        for name in going
        for pod in pods.get(name, ())
        if is_reschedulable(pod) and pod.do_not_disrupt != "true"
    )
