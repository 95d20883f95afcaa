"""Reads objects into a snapshot, and collects their faults.

An object with faults is left out and the rest is planned, as in a cluster. Two kinds stay in the plan: a pod with
faults gets a verdict, and a pool whose node class has faults cannot be used because of that class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec

from shared.api.core.autoscaling.capacity_buffers import parse_capacity_buffer
from shared.api.core.autoscaling.provisioning_requests import parse_provisioning_request
from shared.api.core.autoscaling.vertical_autoscalers import (
    parse_vertical_autoscaler,
    template_with_parts,
    with_parts,
)
from shared.api.core.gangs import parse_pod_group, parse_scheduling_group, parse_workload
from shared.api.core.namespaces import parse_namespace
from shared.api.core.nodes import parse_node
from shared.api.core.pdbs import parse_pdb
from shared.api.core.pod_templates import parse_pod_template
from shared.api.core.pods import parse_daemon_set, parse_pod
from shared.api.core.volumes import parse_claim, parse_csi_node, parse_storage_class, parse_volume
from shared.api.crd.model import UNKNOWN_FIELD
from shared.api.faults import Parsed, texts_of
from shared.api.hardware.device_claims import (
    parse_claim_template,
    parse_device_class,
    parse_resource_claim,
    parse_resource_slice,
)
from shared.api.parsers import parser_of
from shared.api.registry import check
from shared.domain.instance_types.overlays import judged, overlaid, scope_of
from shared.domain.instance_types.types import Catalogue, InstanceType
from shared.domain.pools.generations import GENERATIONS, OF_KIND, V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.snapshot import OfferingKey, Snapshot
from shared.domain.workloads.capacity_buffers import POD_TEMPLATE, SCALABLE_KINDS, PodTemplate
from shared.domain.workloads.gang_sizes import GangSizes, with_sizes
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.provisioning_requests import ProvisioningRequest
from shared.domain.workloads.recommendations import Recommendations, created_anew
from shared.domain.workloads.virtual_pods import BUFFER, REQUEST, request_pods, resolved
from shared.errors import InvalidObject
from shared.simulation import completion
from shared.simulation.objects import KubeObject, ObjectFault, Objects, collect
from shared.simulation.workloads import expand

Json = Mapping[str, Any]
Record = TypeVar("Record", bound=msgspec.Struct)
ALREADY_OVERLAID = (
    "the catalogue has the prices and capacities of the cluster's own NodeOverlays; add InstanceType objects to "
    "simulate another NodeOverlay"
)
CAPACITY_UNKNOWN = "is required: the size of the node is not known"
CLAIMS = ("Machine", "NodeClaim")
OLD_CLASS, NEW_CLASS = (GENERATIONS[one].class_kind for one in (V1ALPHA5, V1))


@dataclass(frozen=True)
class Inputs:
    """The input of a simulation."""

    snapshot: Snapshot
    faults: tuple[ObjectFault, ...] = ()
    ignored: Counter[str] = field(default_factory=Counter)
    """Kind -> number of objects that planning does not use."""
    usable: int = 0
    """Number of objects that the plan uses."""


def read_inputs(
    documents: Iterable[object], catalogue: Callable[[], Catalogue], most_pods: int
) -> Inputs:
    """The snapshot of all objects. ``catalogue``: called without an InstanceType; only its errors are raised."""
    objects = collect(documents)
    expand(objects, most_pods)
    return _Inputs(objects).read(catalogue)


class _Inputs:
    """Parses the objects kind by kind, and counts those that are usable."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.faults = objects.faults
        self.usable = 0

    def read(self, default: Callable[[], Catalogue]) -> Inputs:
        catalogue, sold_out = self._catalogue(default)
        pools = self._pools()
        catalogue = self._corrected(catalogue, pools)
        classes = self._node_classes(pools, catalogue)
        catalogue = completion.with_reservation_classes(
            catalogue, classes, self._listed_reservations()
        )
        recommended = self._recommendations()
        snapshot = Snapshot(
            generation=0,
            pods=tuple(with_sizes(self._pods(recommended), self._gang_sizes())),
            nodes=self._nodes(catalogue),
            machines=_sorted(
                [one for kind in CLAIMS for one in self._all(kind, partial(_parsed, kind))]
            ),
            pools=pools,
            node_classes=classes,
            daemon_sets=_sorted(self._all("DaemonSet", parse_daemon_set)),
            catalogue=catalogue,
            unavailable=sold_out,
            pdbs=_sorted(self._all("PodDisruptionBudget", parse_pdb)),
            **self._storage(),
            **self._kept_room(recommended),
            **self._devices(),
        )
        ignored = self.objects.ignored
        return Inputs(snapshot, tuple(self.faults), ignored, self.usable)

    def _all(self, kind: str, parse: Callable[[Json], Record]) -> list[Record]:
        """The records of a kind whose parser raises InvalidObject."""
        found = []
        for one in self.objects.of(kind):
            try:
                found.append(parse(one.raw))
            except InvalidObject as error:
                self.faults.append(one.fault(error.field, error.fault))
        self.usable += len(found)
        return found

    def _checked(self, one: KubeObject, parsed: Parsed[Record]) -> Record | None:
        """The record of a parser that returns all faults at once. Unknown fields are faults too: an API server would
        drop them."""
        unread = [fault for fault in check(one.raw) if fault.message.startswith(UNKNOWN_FIELD)]
        self.faults += one.faults([*parsed.faults, *unread])
        self.usable += parsed.record is not None
        return parsed.record

    def _catalogue(
        self, default: Callable[[], Catalogue]
    ) -> tuple[Catalogue, frozenset[OfferingKey]]:
        given = self.objects.of("InstanceType")
        if not given and not any(fault.kind == "InstanceType" for fault in self.faults):
            return default(), frozenset()
        types: list[InstanceType] = []
        unpriced: list[InstanceType] = []
        sold_out: frozenset[OfferingKey] = frozenset()
        for one in given:
            parsed = parser_of("InstanceType")(one.raw)
            self.faults += one.faults(parsed.faults)
            if parsed.record is not None:
                (types if parsed.price_known else unpriced).append(parsed.record)
                sold_out |= parsed.sold_out
        self.usable += len(types) + len(unpriced)
        for found in (types, unpriced):
            found.sort(key=lambda kind: kind.name)
        region = _region([*types, *unpriced])
        return Catalogue(region, "given", tuple(types), unpriced=tuple(unpriced)), sold_out

    def _corrected(self, catalogue: Catalogue, pools: Iterable[NodePool]) -> Catalogue:
        """The catalogue with the NodeOverlays of the inputs, as with the gate NodeOverlay in a cluster (NO-01)."""
        given = {one.metadata["name"]: one for one in self.objects.of("NodeOverlay")}
        read = [(one, parser_of("NodeOverlay")(one.raw)) for one in given.values()]
        overlays = [one for pair in read if (one := self._checked(*pair)) is not None]
        scopes = [one for one in map(scope_of, pools) if one is not None]
        found = judged(overlays, catalogue, scopes)
        refused = dict(found.refused)
        if any(
            kind.for_pools or any(offering.overlaid for offering in kind.offerings)
            for kind in catalogue.types
        ):
            refused |= {one.name: ALREADY_OVERLAID for one in found.used}
        self.faults += [given[name].fault("spec", text) for name, text in sorted(refused.items())]
        self.usable -= len(refused)
        used = [one for one in found.used if one.name not in refused]
        return overlaid(catalogue, used, scopes)

    def _gang_sizes(self) -> list[GangSizes]:
        found = []
        for kind in ("PodGroup", "Workload"):
            for one in self.objects.of(kind):
                parsed = _gang_parser(one)(one.raw)
                self.faults += one.faults(parsed.faults)
                if parsed.record is not None:
                    found.append(parsed.record)
        self.usable += len(found)
        return found

    def _recommendations(self) -> Recommendations:
        """Of VerticalPodAutoscalers, as with the gate VerticalPodAutoscaler in a cluster (POD-12)."""
        given = self.objects.of("VerticalPodAutoscaler")
        read = [self._checked(one, parse_vertical_autoscaler(one.raw)) for one in given]
        return Recommendations(one for one in read if one is not None)

    def _pods(self, recommended: Recommendations) -> tuple[Pod, ...]:
        found = []
        unique: dict[ObjectFault, None] = {}
        for one in self.objects.of("Pod"):
            pod = completion.as_unschedulable(
                one.raw, completion.complete(one.raw, parse_pod(one.raw))
            )
            if recommended:
                pod = recommended.of_pod(with_parts(pod, one.raw.get("spec")))
                # Its controller is yet to create it.
                pod = created_anew(pod) if one.controller else pod
            unique.update(dict.fromkeys(_pod_faults(one, pod)))
            self.usable += not pod.faults
            if not pod.is_terminal:
                found.append(pod)
        known = set(self.faults)
        self.faults += [fault for fault in unique if fault not in known]
        return tuple(sorted(found, key=lambda pod: pod.uid))

    def _nodes(self, catalogue: Catalogue) -> tuple[Any, ...]:
        found = []
        raws = {one.metadata["uid"]: one for one in self.objects.of("Node")}
        for record in self._all("Node", parse_node):
            one = raws[record.uid]
            node = completion.with_usual_capacity(one.raw, record, catalogue)
            if not node.allocatable:
                self.faults.append(one.fault("status.allocatable", CAPACITY_UNKNOWN))
            found.append(node)
        return _sorted(found)

    def _pools(self) -> tuple[NodePool, ...]:
        given = self.objects.of("Provisioner", "NodePool")
        read = [(one, self._checked(one, parser_of(one.kind)(one.raw))) for one in given]
        return _sorted(
            [completion.with_readiness(one.raw, pool) for one, pool in read if pool is not None]
        )

    def _node_classes(
        self, pools: Iterable[NodePool], catalogue: Catalogue
    ) -> tuple[NodeClass, ...]:
        everywhere = completion.zones_of(catalogue)
        found: dict[str, NodeClass] = {}
        for one in self.objects.of(OLD_CLASS, NEW_CLASS):
            parsed = parser_of(one.kind)(one.raw)
            record = self._checked(one, parsed)
            usable = (
                completion.ready_class(record, everywhere) if record else _faulty_class(one, parsed)
            )
            found[usable.key] = usable
        for pool in pools:
            if pool.node_class_key not in found:
                found[pool.node_class_key] = completion.missing_class(pool, everywhere)
        return _sorted(list(found.values()))

    def _listed_reservations(self) -> dict[str, frozenset[str]]:
        """Key of each class among the inputs -> ids in its ``status.capacityReservations``."""
        given = self.objects.of(NEW_CLASS)
        return {
            f"{NEW_CLASS}/{one.metadata['name']}": completion.reservations_of(one.raw)
            for one in given
        }

    def _kept_room(self, recommended: Recommendations) -> dict[str, Any]:
        """CapacityBuffers and what they may name, as with the gate CapacityBuffer in a cluster (GAT-02)."""
        given = self.objects.of(POD_TEMPLATE, *SCALABLE_KINDS)
        read = [parse_pod_template(one.raw).record for one in given]
        pairs = [(one, record) for one, record in zip(given, read, strict=True) if record]
        made = tuple(template_with_parts(record, one.raw) for one, record in pairs)
        templates = list(recommended.of_templates(made))
        self.usable += len(self.objects.of(POD_TEMPLATE))
        buffers = []
        for one in self.objects.of(BUFFER):
            buffer = self._checked(one, parse_capacity_buffer(one.raw))
            if buffer is None or buffer.faults or not buffer.is_active:
                continue
            buffers.append(buffer)
            found = resolved(buffer, {template.key: template for template in templates})
            if not found.is_ready:
                self.faults.append(one.fault("spec", found.message))
        return {
            "buffers": _sorted(buffers),
            "pod_templates": _sorted(templates),
            "requests": _sorted(self._requests(templates)),
        }

    def _devices(self) -> dict[str, Any]:
        """What claims of devices are planned with, as with IGNORE_DRA_REQUESTS=false in a cluster (POD-08)."""
        claims = _sorted(self._all("ResourceClaim", parse_resource_claim))
        templates = _sorted(self._all("ResourceClaimTemplate", parse_claim_template))
        names = {one.key: one for one in (*claims, *templates)}
        for one in self.objects.of("ResourceClaim", "ResourceClaimTemplate"):
            for fault in names[one.name].faults if one.name in names else ():
                place, _, message = fault.partition(": ")
                self.faults.append(one.fault(place, message))
        given = self.objects.of("DeviceTemplate")
        described = [self._checked(one, parser_of(one.kind)(one.raw)) for one in given]
        return {
            "device_classes": _sorted(self._all("DeviceClass", parse_device_class)),
            "resource_slices": _sorted(self._all("ResourceSlice", parse_resource_slice)),
            "resource_claims": claims,
            "claim_templates": templates,
            "device_templates": _sorted([one for one in described if one is not None]),
        }

    def _requests(self, templates: Iterable[PodTemplate]) -> list[ProvisioningRequest]:
        """Those that can be judged."""
        found = []
        known = {template.key: template for template in templates}
        for one in self.objects.of(REQUEST):
            request = self._checked(one, parse_provisioning_request(one.raw))
            if request is None or request.faults:
                continue
            problem = request_pods(request, known)
            if isinstance(problem, str):
                self.faults.append(one.fault("spec.podSets", problem))
            else:
                found.append(request)
        return found

    def _storage(self) -> dict[str, Any]:
        classes = self._all("StorageClass", parse_storage_class)
        default = completion.default_class_of([one.raw for one in self.objects.of("StorageClass")])
        claims = self._all("PersistentVolumeClaim", parse_claim)
        return {
            "claims": _sorted([completion.with_binding(claim, default) for claim in claims]),
            "volumes": _sorted(self._all("PersistentVolume", parse_volume)),
            "storage_classes": _sorted(classes),
            "csi_nodes": _sorted(self._all("CSINode", parse_csi_node)),
            "namespaces": _sorted(self._all("Namespace", parse_namespace)),
        }


def _parsed(kind: str, raw: Json) -> Any:
    """As the kind's parser; its module is imported with the first object."""
    return parser_of(kind)(raw)


def _pod_faults(one: KubeObject, pod: Pod) -> Iterator[ObjectFault]:
    """The pod's faults; for a pod made from a template they are faults of the controller."""
    for fault in pod.faults:
        place, _, message = fault.partition(": ")
        if one.controller is None:
            yield one.fault(place, message)
        else:
            yield one.controller.fault(f"spec.template.{place}", message)


def _faulty_class(one: KubeObject, parsed: Parsed[NodeClass]) -> NodeClass:
    meta = one.metadata
    return NodeClass(
        uid=meta["uid"],
        name=meta["name"],
        generation_api=OF_KIND[one.kind].name,
        fault="; ".join(texts_of(parsed.faults)),
    )


def _region(types: Iterable[InstanceType]) -> str:
    """The region in zone names such as eu-west-1b; empty when they do not name exactly one."""
    zones = {offering.zone for kind in types for offering in kind.offerings}
    regions = {zone.rstrip("abcdefghijklmnopqrstuvwxyz") for zone in zones}
    return regions.pop() if len(regions) == 1 else ""


def _sorted(records: list[Any]) -> tuple[Any, ...]:
    return tuple(sorted(records, key=lambda record: (record.name, getattr(record, "key", ""))))


def _gang_parser(one: KubeObject) -> Callable[[Json], Parsed[GangSizes]]:
    """Two API groups have a PodGroup: scheduler-plugins, and Kubernetes itself."""
    if one.kind == "Workload":
        return parse_workload
    group = str(one.raw.get("apiVersion") or "").partition("/")[0]
    return parse_scheduling_group if group == "scheduling.k8s.io" else parse_pod_group
