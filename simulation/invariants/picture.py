"""What the invariants know of the cluster: every object as it is now and as it was before the last event.

Objects are read from the API server's store itself and not from any picture of Dovetail's. The store replaces documents
and never changes them, so a record is parsed once per version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.api.core.nodes import parse_node
from shared.api.core.pods import parse_pod
from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1.node_pools import parse_node_pool
from shared.api.v1alpha5.machines import parse_machine
from shared.api.v1alpha5.provisioners import parse_provisioner
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pools.nodepools import NodePool
from shared.domain.workloads.pods import Pod
from shared.errors import InvalidObject
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    CAPACITY_BUFFERS,
    EC2_NODE_CLASSES,
    LAUNCH_RECORDS,
    LEASES,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PDBS,
    PODS,
    PROVISIONERS,
    Resource,
)

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

Json = Mapping[str, Any]
MOST_RECORDS = 5_000
MACHINE_KINDS = frozenset({MACHINES.plural, NODE_CLAIMS.plural})
Key = tuple[str, str, str]
"""Plural, namespace (empty for cluster-scoped kinds), name."""
FOLLOWED = {
    resource.plural: resource
    for resource in (
        PODS, NODES, PDBS, LEASES, MACHINES, NODE_CLAIMS, NODE_POOLS, PROVISIONERS,
        EC2_NODE_CLASSES, AWS_NODE_TEMPLATES, LAUNCH_RECORDS,
        CAPACITY_BUFFERS,
    )
}  # fmt: skip


class Change(NamedTuple):
    """One object before and after a write; None: it was not there, or is not any more."""

    resource: Resource
    key: Key
    before: Json | None
    after: Json | None
    by: str
    """The service that wrote (``scheduler``), or the program of another writer."""

    @property
    def is_new(self) -> bool:
        """Whether the object was created."""
        return self.before is None and self.after is not None

    @property
    def begins_deletion(self) -> bool:
        """Whether this write ordered the deletion of the object."""
        before, after = _deletion(self.before), _deletion(self.after)
        if self.before is None or before:
            return False
        return bool(after) or self.after is None


def _deletion(document: Json | None) -> str:
    return "" if document is None else str(document["metadata"].get("deletionTimestamp") or "")


@dataclass
class Picture:
    """The present state of the followed kinds. Shared by all invariants of a run: ``follow`` is idempotent."""

    documents: dict[str, dict[Key, Json]] = field(default_factory=dict)
    """Plural of the kind -> key -> document."""
    rolled_back_at: float = -inf
    """When the API server last lost writes that it had confirmed."""
    _revision: int = 0
    _followed: int = 0
    _last: Change | None = None

    def follow(self, event: Event, world: World) -> Change | None:
        """Take note of one event; the change that it stands for, None for other events and kinds."""
        if event.number == self._followed:
            return self._last
        self._followed = event.number
        is_first = not self.documents
        if is_first:
            self._read(world.store)
        elif world.store.revision < self._revision:
            self.rolled_back_at = event.at
            self._read(world.store)
        self._revision = world.store.revision
        self._last = self._change(event, world, is_first) if event.kind == "api" else None
        return self._last

    def refresh(self, world: World) -> Picture:
        """All documents as they are now, for those who follow no events."""
        if self._revision != world.store.revision:
            self._read(world.store)
            self._revision = world.store.revision
        return self

    def _read(self, store: Any) -> None:
        """All documents as they are now: at the beginning, and after a restore, which is no change by anybody."""
        self.documents = {
            resource.plural: {
                _key(resource, raw): raw
                for raw in store.list(resource.plural, group=resource.group)
            }
            for resource in FOLLOWED.values()
        }

    def _change(self, event: Event, world: World, is_first: bool) -> Change | None:
        resource = FOLLOWED.get(str(event.fields.get("resource")).partition(".")[0])
        if resource is None:
            return None
        namespace = str(event.fields.get("namespace") or "") if resource.namespaced else ""
        key = (resource.plural, namespace, str(event.fields["name"]))
        after = world.store.find(
            resource.plural, key[2], group=resource.group, namespace=namespace or None
        )
        held = self.documents[resource.plural]
        # What the first event is about was read after it: it counts as new.
        before = None if is_first else held.get(key)
        if after is None:
            held.pop(key, None)
        else:
            held[key] = after
        if after is before:
            return None
        return Change(resource, key, before, after, service_of(str(event.fields.get("by") or "")))

    # Records

    def machines(self) -> list[Machine]:
        """All readable machines of both generations."""
        return [*self._all(MACHINES), *self._all(NODE_CLAIMS)]

    def nodes(self) -> list[Node]:
        """All nodes."""
        return [*self._all(NODES)]

    def pods(self) -> list[Pod]:
        """All pods."""
        return [*self._all(PODS)]

    def pools(self) -> list[NodePool]:
        """All readable pools of both generations."""
        return [*self._all(PROVISIONERS), *self._all(NODE_POOLS)]

    def raw(self, resource: Resource) -> list[Json]:
        """The documents of one kind."""
        return [*self.documents[resource.plural].values()]

    def machine_of(self, instance_id: str) -> Machine | None:
        """The machine that names this instance."""
        named = (m for m in self.machines() if provider_instance_id(m.provider_id) == instance_id)
        return next(named, None)

    def node_of(self, provider_id: str) -> Node | None:
        """The node of this provider id."""
        return next((node for node in self.nodes() if node.provider_id == provider_id), None)

    def _all(self, resource: Resource) -> Iterator[Any]:
        for document in self.documents[resource.plural].values():
            record = record_of(resource, document)
            if record is not None:
                yield record


def _key(resource: Resource, raw: Json) -> Key:
    return resource.plural, str(raw["metadata"].get("namespace") or ""), raw["metadata"]["name"]


def record_of(resource: Resource, document: Json | None) -> Any:
    """The record of a document of a kind that has one; None for an unreadable or missing one.

    A document must not change afterwards: most invariants ask for the same ones, and each is parsed once.
    """
    if document is None:
        return None
    known = _records.get(id(document))
    if known is not None and known[0] is document:
        return known[1]
    if len(_records) >= MOST_RECORDS:
        _records.clear()
    try:
        record = _PARSERS[resource.plural](document)
    except InvalidObject:
        record = None
    _records[id(document)] = document, record
    return record


_records: dict[int, tuple[Json, Any]] = {}
"""Address of a document -> the document, which keeps its address as long as it is here, and its record."""


_PARSERS: Mapping[str, Callable[[Json], Any]] = {
    PODS.plural: parse_pod,
    NODES.plural: parse_node,
    MACHINES.plural: parse_machine,
    NODE_CLAIMS.plural: parse_node_claim,
    PROVISIONERS.plural: lambda raw: parse_provisioner(raw).record,
    NODE_POOLS.plural: lambda raw: parse_node_pool(raw).record,
}


def service_of(by: str) -> str:
    """``scheduler`` of ``dovetail-scheduler/0.1.0``; other programs by their own name."""
    return by.partition("/")[0].removeprefix("dovetail-")
