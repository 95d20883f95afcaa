"""What the API server has: machines, launch records, nodes, pools, node classes, budgets, and pods of nodes that go.

Each kind is listed in pages by itself. A kind that may not be listed leaves the others, and so does an object that
cannot be read. Machines are read before instances (``read.py``): what ends in between has its machine still.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.operations.audit.picture import Input, Leaving, Record, Unreadable
from shared.api.core.nodes import parse_node
from shared.api.core.pdbs import parse_pdb
from shared.api.core.pods import parse_pod
from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1.node_pools import parse_node_pool
from shared.api.v1alpha5.machines import parse_machine
from shared.api.v1alpha5.provisioners import parse_provisioner
from shared.concurrency.clock import parse_rfc3339
from shared.domain.nodes import Node
from shared.errors import DovetailError, InvalidObject, NotFound, Unauthorized
from shared.kube.client import Kube
from shared.kube.machines import provider_id_in
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
    LAUNCH_RECORDS,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PDBS,
    PODS,
    PROVISIONERS,
    Resource,
)

WITHOUT_TIMES = (NODES, PROVISIONERS, NODE_POOLS, AWS_NODE_TEMPLATES, EC2_NODE_CLASSES)
"""Kinds whose records do not say since when an object is being deleted."""
Json = Mapping[str, Any]


@dataclass
class ClusterLists:
    """The lists of one reading, which ``read`` fills."""

    kube: Kube
    found: dict[Input, list[Any]] = field(default_factory=dict)
    """Records by input; of classes there are none."""
    leaving: list[Leaving] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    limits_at: dict[str, float] = field(default_factory=dict)
    unread: dict[Input, str] = field(default_factory=dict)

    async def read(self) -> None:
        """Every kind. Pods are kept only of nodes that are being deleted, with their machine or without it."""
        await self._list("machines", MACHINES, parse_machine)
        await self._list("machines", NODE_CLAIMS, parse_node_claim)
        await self._list("records", LAUNCH_RECORDS, _record)
        await self._list("nodes", NODES, parse_node)
        await self._list("pools", PROVISIONERS, lambda raw: parse_provisioner(raw).record)
        await self._list("pools", NODE_POOLS, lambda raw: parse_node_pool(raw).record)
        await self._list("classes", AWS_NODE_TEMPLATES, _nothing)
        await self._list("classes", EC2_NODE_CLASSES, _nothing)
        await self._list("budgets", PDBS, parse_pdb)
        names = self._leaving_nodes()
        await self._list("pods", PODS, lambda raw: _pod_on(raw, names))

    async def _list(self, part: Input, resource: Resource, parse: Callable[[Json], object]) -> None:
        """Add the records of one kind; a kind that the cluster does not serve has none."""
        held = self.found.setdefault(part, [])

        def read(raw: Json) -> object:
            try:
                self._note(resource, raw)
                return parse(raw)
            except InvalidObject as error:
                return _unreadable(resource, raw, error.message)

        try:
            listed = await self.kube.read_all(resource, read)
        except NotFound:
            return
        except Unauthorized:
            self.unread[part] = f"you may not list {resource.qualified}: the right is list"
            return
        except DovetailError as error:
            self.unread[part] = f"{resource.qualified}: {error.message}"
            return
        self.unreadable += [one for one in listed if isinstance(one, Unreadable)]
        held += [one for one in listed if one is not None and not isinstance(one, Unreadable)]

    def _note(self, resource: Resource, raw: Json) -> None:
        """What the records do not have: times of deletions, and of limits."""
        meta = raw["metadata"]
        key = f"{resource.kind}/{meta['name']}"
        if resource in WITHOUT_TIMES and meta.get("deletionTimestamp"):
            at = parse_rfc3339(str(meta["deletionTimestamp"]))
            self.leaving.append(Leaving(key, at, tuple(meta.get("finalizers") or ())))
        if resource in (PROVISIONERS, NODE_POOLS):
            self.limits_at[key] = limits_written_at(meta.get("managedFields") or ())

    def _leaving_nodes(self) -> frozenset[str]:
        nodes: Sequence[Node] = self.found.get("nodes", [])
        going = {one.provider_id for one in self.found["machines"] if one.terminating}
        return frozenset(
            node.name for node in nodes if node.terminating or node.provider_id in going
        )


def limits_written_at(managed_fields: Sequence[Json]) -> float:
    """When who owns the limits wrote last, in seconds since the epoch; 0: the API server does not say it."""
    times = [0.0]
    for one in managed_fields:
        spec = (one.get("fieldsV1") or {}).get("f:spec") or {}
        if "f:limits" in spec and one.get("time"):
            times.append(parse_rfc3339(str(one["time"])))
    return max(times)


def _record(raw: Json) -> Record:
    machines = raw["spec"]["machines"]
    created = parse_rfc3339(raw["metadata"]["creationTimestamp"])
    return Record(raw["metadata"]["name"], created, frozenset(str(one["uid"]) for one in machines))


def _nothing(_: Json) -> None:
    return None


def _pod_on(raw: Json, nodes: frozenset[str]) -> object:
    name = (raw.get("spec") or {}).get("nodeName")
    return parse_pod(raw) if name in nodes else None


def _unreadable(resource: Resource, raw: Json, problem: str) -> Unreadable:
    meta = raw["metadata"]
    owner = provider_id_in(raw) or str((raw.get("spec") or {}).get("providerID") or "")
    return Unreadable(f"{resource.kind}/{meta['name']}", problem, str(meta.get("uid")), owner)
