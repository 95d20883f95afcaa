"""Completes records from files with what a running cluster would have added: conditions, capacity, bindings.

Each function takes an object as written and its record, and returns the record for the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.instance_types.sizes import DEFAULT_PODS
from shared.domain.instance_types.types import Catalogue, InstanceType
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodeClass, NodePool, SubnetRef
from shared.domain.resources import PODS
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.volumes import VolumeClaim

Json = Mapping[str, Any]
MAX_MESSAGE_CHARACTERS = 500
"""A condition's message is cut at this length."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def complete(raw: Json, pod: Pod) -> Pod:
    """The pod, with a fault if it has no containers, which an API server would refuse."""
    spec = raw.get("spec")
    if pod.faults or (isinstance(spec, Mapping) and spec.get("containers")):
        return pod
    return replace(pod, faults=("spec.containers: is required",))


def as_unschedulable(raw: Json, pod: Pod) -> Pod:
    """The pod, marked unschedulable if it is pending without a condition of kube-scheduler (POD-01)."""
    spec, status = raw.get("spec"), raw.get("status")
    gated = isinstance(spec, Mapping) and bool(spec.get("schedulingGates"))
    judged = isinstance(status, Mapping) and "PodScheduled" in _condition_types(status)
    if judged or gated or pod.node_name or pod.phase != "Pending":
        return pod
    return replace(pod, unschedulable=True)


def _condition_types(status: Json) -> list[object]:
    conditions = status.get("conditions")
    listed = conditions if isinstance(conditions, list) else []
    return [one.get("type") for one in listed if isinstance(one, Mapping)]


def with_usual_capacity(raw: Json, node: Node, catalogue: Catalogue) -> Node:
    """The node with defaults: ready without conditions, allocatable of its capacity or instance type, 110 pods.

    A node of unknown size stays without allocatable resources.
    """
    status = raw.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    capacity, allocatable = node.capacity, node.allocatable or node.capacity
    if not allocatable:
        name = node.labels.get(keys.INSTANCE_TYPE)
        kind = next((one for one in catalogue.types if one.name == name), None)
        if kind is not None:
            capacity, allocatable = kind.capacity, kind.allocatable()
    if allocatable:
        capacity = {PODS: DEFAULT_PODS, **(capacity or allocatable)}
        allocatable = {PODS: DEFAULT_PODS, **allocatable}
    ready = node.ready or not conditions
    return replace(node, ready=ready, capacity=capacity, allocatable=allocatable)


def with_readiness(raw: Json, pool: NodePool) -> NodePool:
    """The pool, with a fault if its condition Ready is False; without the condition it is ready."""
    status = raw.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for one in conditions if isinstance(conditions, list) else []:
        if isinstance(one, Mapping) and (one.get("type"), one.get("status")) == ("Ready", "False"):
            message = one.get("message") or one.get("reason") or "no reason is given"
            return replace(pool, fault=str(message)[:MAX_MESSAGE_CHARACTERS])
    return pool


def with_binding(claim: VolumeClaim, default_class: str | None) -> VolumeClaim:
    """The claim, bound if it names its volume; without a class it gets the default one, as an API server would set."""
    if claim.volume_name:
        bound = claim.phase in ("", "Bound")
        return replace(claim, bound_completed=claim.bound_completed or bound)
    if claim.storage_class is None and default_class is not None:
        return replace(claim, storage_class=default_class)
    return claim


def default_class_of(classes: list[Json]) -> str | None:
    """The name of the default storage class; of several the first by name; None without any."""
    names = [
        str(one["metadata"]["name"])
        for one in classes
        if one["metadata"]["annotations"].get(DEFAULT_CLASS) == "true"
    ]
    return min(names, default=None)


def zones_of(catalogue: Catalogue) -> tuple[SubnetRef, ...]:
    """A subnet in every zone that has an offering."""
    zones = {offering.zone for kind in catalogue.types for offering in kind.offerings}
    return tuple(SubnetRef(f"subnet-{zone}", zone) for zone in sorted(zones))


def ready_class(node_class: NodeClass, everywhere: tuple[SubnetRef, ...]) -> NodeClass:
    """The class as ready, in its resolved subnets or else ``everywhere``."""
    return replace(node_class, ready=True, fault="", subnets=node_class.subnets or everywhere)


def missing_class(pool: NodePool, everywhere: tuple[SubnetRef, ...]) -> NodeClass:
    """A ready class with subnets in every zone, for a pool whose class is not among the inputs."""
    return NodeClass(
        uid=f"simulated:{pool.node_class_key}",
        name=pool.node_class,
        generation_api=pool.generation_api,
        subnets=everywhere,
        ready=True,
    )


def reservations_of(raw: Json) -> frozenset[str]:
    """Ids of the capacity reservations in a class's status; an invalid list counts as empty."""
    status = raw.get("status")
    listed = status.get("capacityReservations") if isinstance(status, Mapping) else None
    found = listed if isinstance(listed, list) else []
    return frozenset(str(one.get("id")) for one in found if isinstance(one, Mapping))


def with_reservation_classes(
    catalogue: Catalogue, classes: Iterable[NodeClass], listed: Mapping[str, frozenset[str]]
) -> Catalogue:
    """The catalogue with the classes that select each reservation.

    A class selects a reservation that it names by id in a term or lists in its status (``listed``). Classes that are
    not among the inputs (not in ``listed``) select all.
    """
    if not any(o.reservation_id for kind in catalogue.types for o in kind.offerings):
        return catalogue
    named = {
        one.key: frozenset(term.id for term in one.reservation_terms) | listed.get(one.key, frozenset())
        for one in classes
    }  # fmt: skip
    given = {key: ids if key in listed else None for key, ids in named.items()}
    types = tuple(_with_classes(kind, given) for kind in catalogue.types)
    return replace(catalogue, types=types)


def _with_classes(kind: InstanceType, given: Mapping[str, frozenset[str] | None]) -> InstanceType:
    """``given``: key of each class -> ids of the reservations that it selects; None: all."""
    offerings = tuple(
        replace(
            one,
            node_classes=tuple(
                sorted(k for k, ids in given.items() if ids is None or one.reservation_id in ids)
            ),
        )
        if one.reservation_id
        else one
        for one in kind.offerings
    )
    return replace(kind, offerings=offerings)
