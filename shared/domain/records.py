"""The record type of each kind in the mirror, and its decoder."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.domain.devices.records import (
    ClaimTemplate,
    DeviceClass,
    DeviceTemplate,
    ResourceClaim,
    ResourceSlice,
)
from shared.domain.instance_types.overlays import Overlay
from shared.domain.machines.machine import Machine
from shared.domain.nodes import DaemonSet, Node
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.workloads.capacity_buffers import CapacityBuffer, PodTemplate
from shared.domain.workloads.gang_sizes import GangSizes
from shared.domain.workloads.namespaces import Namespace
from shared.domain.workloads.pdbs import PodDisruptionBudget
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.provisioning_requests import ProvisioningRequest
from shared.domain.workloads.recommendations import Recommendation
from shared.domain.workloads.sharing import shared
from shared.domain.workloads.volumes import CsiNode, StorageClass, Volume, VolumeClaim

PODS, NODES, DAEMON_SETS = "pods", "nodes", "daemonsets"
NODE_POOLS, NODE_CLASSES, MACHINES = "nodepools", "nodeclasses", "machines"
CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
STORAGE_CLASSES, CSI_NODES = "storageclasses", "csinodes"
PDBS, NAMESPACES = "poddisruptionbudgets", "namespaces"
NODE_OVERLAYS = "nodeoverlays"
CAPACITY_BUFFERS, POD_TEMPLATES = "capacitybuffers", "podtemplates"
PROVISIONING_REQUESTS = "provisioningrequests"
DEVICE_CLASSES, RESOURCE_SLICES = "deviceclasses", "resourceslices"
RESOURCE_CLAIMS, CLAIM_TEMPLATES = "resourceclaims", "resourceclaimtemplates"
GANG_SIZES = "gangsizes"
DEVICE_TEMPLATES = "devicetemplates"
RECOMMENDATIONS = "verticalpodautoscalers"

RECORD_TYPES: dict[str, type[msgspec.Struct]] = {
    PODS: Pod,
    NODES: Node,
    DAEMON_SETS: DaemonSet,
    NODE_POOLS: NodePool,
    NODE_CLASSES: NodeClass,
    MACHINES: Machine,
    CLAIMS: VolumeClaim,
    VOLUMES: Volume,
    STORAGE_CLASSES: StorageClass,
    CSI_NODES: CsiNode,
    PDBS: PodDisruptionBudget,
    NAMESPACES: Namespace,
    NODE_OVERLAYS: Overlay,
    CAPACITY_BUFFERS: CapacityBuffer,
    POD_TEMPLATES: PodTemplate,
    PROVISIONING_REQUESTS: ProvisioningRequest,
    DEVICE_CLASSES: DeviceClass,
    RESOURCE_SLICES: ResourceSlice,
    RESOURCE_CLAIMS: ResourceClaim,
    CLAIM_TEMPLATES: ClaimTemplate,
    GANG_SIZES: GangSizes,
    DEVICE_TEMPLATES: DeviceTemplate,
    RECOMMENDATIONS: Recommendation,
}
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(record) for kind, record in RECORD_TYPES.items()
}


def decode_record(kind: str, body: bytes) -> Any:
    """The record encoded in ``body``. Raises msgspec.ValidationError for bytes of another version."""
    record = _DECODERS[kind].decode(body)
    return shared(record) if kind == PODS else record
