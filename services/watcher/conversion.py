"""Kubernetes objects -> mirror records: one converter per kind, no I/O.

Only what scheduling needs travels to Redis; environment variables, commands, user data and secrets never do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from shared.api.core.autoscaling.capacity_buffers import parse_capacity_buffer
from shared.api.core.autoscaling.provisioning_requests import parse_provisioning_request
from shared.api.core.autoscaling.vertical_autoscalers import parse_vertical_autoscaler
from shared.api.core.gangs import parse_pod_group, parse_scheduling_group, parse_workload
from shared.api.core.namespaces import parse_namespace
from shared.api.core.nodes import parse_node
from shared.api.core.pdbs import parse_pdb
from shared.api.core.pod_templates import parse_pod_template
from shared.api.core.pods import parse_daemon_set, parse_pod
from shared.api.core.volumes import parse_claim, parse_csi_node, parse_storage_class, parse_volume
from shared.api.faults import Fault, Parsed
from shared.api.hardware.device_claims import (
    parse_claim_template,
    parse_device_class,
    parse_resource_claim,
    parse_resource_slice,
)
from shared.api.hardware.device_templates import parse_device_template
from shared.api.v1.ec2_node_classes import parse_ec2_node_class
from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1.node_overlays import parse_node_overlay
from shared.api.v1.node_pools import parse_node_pool
from shared.api.v1alpha5.machines import parse_machine
from shared.api.v1alpha5.node_templates import parse_node_template
from shared.api.v1alpha5.provisioners import parse_provisioner
from shared.domain.records import (
    CAPACITY_BUFFERS,
    CLAIM_TEMPLATES,
    CLAIMS,
    CSI_NODES,
    DAEMON_SETS,
    DEVICE_CLASSES,
    DEVICE_TEMPLATES,
    GANG_SIZES,
    MACHINES,
    NAMESPACES,
    NODE_CLASSES,
    NODE_OVERLAYS,
    NODE_POOLS,
    NODES,
    PDBS,
    POD_TEMPLATES,
    PODS,
    PROVISIONING_REQUESTS,
    RECOMMENDATIONS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUMES,
)
from shared.errors import InvalidObject
from shared.kube import resources
from shared.kube.informer import Key
from shared.kube.resources import Resource

Json = Mapping[str, Any]


def _lenient(
    parse: Callable[[Json], msgspec.Struct],
) -> Callable[[Json], Parsed[Any]]:
    def convert(raw: Json) -> Parsed[Any]:
        try:
            return Parsed(parse(raw))
        except InvalidObject as error:
            message = error.message.removeprefix(f"{error.field}: ")
            return Parsed(None, (Fault((error.field,), message),))

    return convert


def _staying(parse: Callable[[Json], Parsed[Any]]) -> Callable[[Json], Parsed[Any]]:
    """A converter for a kind of which an object that is being deleted does not count."""

    def convert(raw: Json) -> Parsed[Any]:
        return Parsed(None) if raw["metadata"].get("deletionTimestamp") else parse(raw)

    return convert


def _carrying(parse: Callable[[Json], Parsed[Any]]) -> Callable[[Json], Parsed[Any]]:
    """A converter for a kind whose record says itself what is wrong with it, as that of a pod does."""

    def convert(raw: Json) -> Parsed[Any]:
        return Parsed(parse(raw).record)

    return convert


def _without_user_data(parse: Callable[[Json], Parsed[Any]]) -> Callable[[Json], Parsed[Any]]:
    """A converter of node classes: tokens stand in user data, and only the launcher needs it, from the API server."""

    def convert(raw: Json) -> Parsed[Any]:
        parsed = parse(raw)
        if parsed.record is None:
            return parsed
        return replace(parsed, record=msgspec.structs.replace(parsed.record, user_data=""))

    return convert


@dataclass(frozen=True)
class Kind:
    """One watched kind: its name in the mirror, where it is served, how it is read."""

    name: str
    resource: Resource
    convert: Callable[[Json], Parsed[Any]]
    alias: str = ""
    """What tells it from another kind with the same names, in another API group."""

    @property
    def watch(self) -> str:
        """The name of its watch."""
        return self.alias or self.resource.plural

    @property
    def identity(self) -> str:
        """Its Kubernetes kind, or the alias."""
        return self.alias or self.resource.kind

    def key(self, raw: Json) -> str:
        """The key in the mirror of an object that is there."""
        meta = raw["metadata"]
        return self.key_of(Key(str(meta.get("namespace") or ""), str(meta["name"])))

    def key_of(self, key: Key) -> str:
        """``namespace/name`` or ``name``, after the kind where several kinds share a name in the mirror."""
        shared = self.name in (NODE_POOLS, NODE_CLASSES, MACHINES, POD_TEMPLATES, GANG_SIZES)
        return f"{self.identity}/{key}" if shared else str(key)


KINDS = (
    Kind(PODS, resources.PODS, _lenient(parse_pod)),
    Kind(NODES, resources.NODES, _lenient(parse_node)),
    Kind(DAEMON_SETS, resources.DAEMON_SETS, _lenient(parse_daemon_set)),
    Kind(NODE_POOLS, resources.PROVISIONERS, parse_provisioner),
    Kind(NODE_POOLS, resources.NODE_POOLS, parse_node_pool),
    Kind(NODE_CLASSES, resources.AWS_NODE_TEMPLATES, _without_user_data(parse_node_template)),
    Kind(NODE_CLASSES, resources.EC2_NODE_CLASSES, _without_user_data(parse_ec2_node_class)),
    Kind(MACHINES, resources.MACHINES, _lenient(parse_machine)),
    Kind(MACHINES, resources.NODE_CLAIMS, _lenient(parse_node_claim)),
    Kind(CLAIMS, resources.PVCS, _lenient(parse_claim)),
    Kind(VOLUMES, resources.PVS, _lenient(parse_volume)),
    Kind(STORAGE_CLASSES, resources.STORAGE_CLASSES, _lenient(parse_storage_class)),
    Kind(CSI_NODES, resources.CSI_NODES, _lenient(parse_csi_node)),
    Kind(PDBS, resources.PDBS, _lenient(parse_pdb)),
    Kind(NAMESPACES, resources.NAMESPACES, _lenient(parse_namespace)),
    Kind(NODE_OVERLAYS, resources.NODE_OVERLAYS, _staying(parse_node_overlay)),
    Kind(CAPACITY_BUFFERS, resources.CAPACITY_BUFFERS, _staying(_carrying(parse_capacity_buffer))),
    Kind(
        PROVISIONING_REQUESTS,
        resources.PROVISIONING_REQUESTS,
        _staying(_carrying(parse_provisioning_request)),
    ),
    Kind(DEVICE_CLASSES, resources.DEVICE_CLASSES, _lenient(parse_device_class)),
    Kind(RESOURCE_SLICES, resources.RESOURCE_SLICES, _lenient(parse_resource_slice)),
    Kind(RESOURCE_CLAIMS, resources.RESOURCE_CLAIMS, _lenient(parse_resource_claim)),
    Kind(DEVICE_TEMPLATES, resources.DEVICE_TEMPLATES, _staying(parse_device_template)),
    Kind(CLAIM_TEMPLATES, resources.CLAIM_TEMPLATES, _lenient(parse_claim_template)),
    Kind(GANG_SIZES, resources.POD_GROUPS, _staying(parse_pod_group)),
    Kind(
        GANG_SIZES,
        resources.SCHEDULING_GROUPS,
        _staying(parse_scheduling_group),
        alias=resources.SCHEDULING_GROUPS.qualified,
    ),
    Kind(GANG_SIZES, resources.WORKLOADS, _staying(parse_workload)),
    Kind(RECOMMENDATIONS, resources.VERTICAL_AUTOSCALERS, _staying(parse_vertical_autoscaler)),
    Kind(POD_TEMPLATES, resources.POD_TEMPLATES, parse_pod_template),
    Kind(POD_TEMPLATES, resources.DEPLOYMENTS, parse_pod_template),
    Kind(POD_TEMPLATES, resources.REPLICA_SETS, parse_pod_template),
    Kind(POD_TEMPLATES, resources.STATEFUL_SETS, parse_pod_template),
)
