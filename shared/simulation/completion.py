"""What a running cluster would have added to records that come from files: verdicts, readiness, room, bindings.

Each function takes the object as written and its record, and gives the record that is planned with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.instance_sizes import DEFAULT_PODS
from shared.domain.instance_types import Catalogue, InstanceType
from shared.domain.nodepools import NodeClass, NodePool, SubnetRef
from shared.domain.nodes import Node
from shared.domain.pods import Pod
from shared.domain.resources import PODS
from shared.domain.volumes import VolumeClaim

Json = Mapping[str, Any]
MAX_MESSAGE_CHARACTERS = 500
"""Characters that are told of a condition's message."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def complete(raw: Json, pod: Pod) -> Pod:
    """An API server takes no pod without containers: its ``spec``, or that word, is misspelt."""
    spec = raw.get("spec")
    if pod.faults or (isinstance(spec, Mapping) and spec.get("containers")):
        return pod
    return replace(pod, faults=("spec.containers: is required",))


def as_unschedulable(raw: Json, pod: Pod) -> Pod:
    """A pending pod about which kube-scheduler has said nothing yet waits for capacity (POD-01)."""
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
    """Ready without conditions; allocatable as the capacity, or as its instance type; room for 110 pods if unsaid.

    Nothing allocatable at all stays so: then nobody knows how large the node is.
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
    """A pool whose status says that it is not ready is not planned for; one without such a condition is ready."""
    status = raw.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for one in conditions if isinstance(conditions, list) else []:
        if isinstance(one, Mapping) and (one.get("type"), one.get("status")) == ("Ready", "False"):
            given = one.get("message") or one.get("reason") or "no reason is given"
            return replace(pool, fault=str(given)[:MAX_MESSAGE_CHARACTERS])
    return pool


def with_binding(claim: VolumeClaim, default_class: str | None) -> VolumeClaim:
    """A claim that names its volume is bound to it; one without a class gets the default, as at its creation."""
    if claim.volume_name:
        bound = claim.phase in ("", "Bound")
        return replace(claim, bound_completed=claim.bound_completed or bound)
    if claim.storage_class is None and default_class is not None:
        return replace(claim, storage_class=default_class)
    return claim


def default_class_of(classes: list[Json]) -> str | None:
    """The name of the class that is marked as the default; of several the first by name."""
    marked = [
        str(one["metadata"]["name"])
        for one in classes
        if one["metadata"]["annotations"].get(DEFAULT_CLASS) == "true"
    ]
    return min(marked, default=None)


def zones_of(catalogue: Catalogue) -> tuple[SubnetRef, ...]:
    """A subnet in every zone where anything is sold."""
    zones = {offering.zone for kind in catalogue.types for offering in kind.offerings}
    return tuple(SubnetRef(f"subnet-{zone}", zone) for zone in sorted(zones))


def ready_class(node_class: NodeClass, everywhere: tuple[SubnetRef, ...]) -> NodeClass:
    """Ready, in its own subnets if it has resolved them."""
    return replace(node_class, ready=True, fault="", subnets=node_class.subnets or everywhere)


def missing_class(pool: NodePool, everywhere: tuple[SubnetRef, ...]) -> NodeClass:
    """The class of a pool that is not among the inputs: ready everywhere."""
    return NodeClass(
        uid=f"simulated:{pool.node_class_key}",
        name=pool.node_class,
        generation_api=pool.generation_api,
        subnets=everywhere,
        ready=True,
    )


def reservations_of(raw: Json) -> frozenset[str]:
    """Ids that a class shows in its status; what is no list of them counts as none."""
    status = raw.get("status")
    listed = status.get("capacityReservations") if isinstance(status, Mapping) else None
    found = listed if isinstance(listed, list) else []
    return frozenset(str(one.get("id")) for one in found if isinstance(one, Mapping))


def with_reservation_classes(
    catalogue: Catalogue, classes: Iterable[NodeClass], listed: Mapping[str, frozenset[str]]
) -> Catalogue:
    """With the classes that select each reservation of the catalogue: those that name its id in a term or ``listed`` it
    in their status, and those that are not among the inputs (they are not in ``listed``)."""
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
    """``given``: key of each class -> the ids that it selects; None: all."""
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
