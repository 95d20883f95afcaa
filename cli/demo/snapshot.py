"""Snapshots of the cluster: pods of the workload, Machines, added nodes and instances; and the changes between two.

All data comes from the API server and from EC2, none from Dovetail's services: the demo must not trust what it shows.
Snapshots are taken a few times per second and are not atomic; an object that is created and deleted between two
snapshots is missed.

Errors: the API server or the emulator does not answer (TransientError).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cli.cloud.emulator import Emulator, InstanceView
from shared.api.v1alpha5.machines import domain_condition
from shared.domain import labels
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED
from shared.kube.client import Kube, Object
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES, PODS

WORKLOAD_SELECTOR = "app=inflate"
NAMESPACE = "default"


@dataclass(frozen=True)
class PodView:
    """One pod of the workload."""

    name: str
    node: str
    running: bool
    leaving: bool


@dataclass(frozen=True)
class MachineView:
    """One Machine or NodeClaim. ``reached``: its true conditions, by their domain names. Prices are in USD."""

    name: str
    provider_id: str
    reached: frozenset[str]
    leaving: bool
    price_per_hour: float | None


@dataclass(frozen=True)
class NodeView:
    """One node that Dovetail added, with the number of workload pods that run on it."""

    name: str
    provider_id: str
    instance_type: str
    zone: str
    capacity_type: str
    price_per_hour: float | None
    pods: int
    ready: bool
    cordoned: bool
    leaving: bool
    tainted: bool = False
    """Whether the node has the taint karpenter.sh/disrupted (v1)."""


def hourly(views: Iterable[MachineView | NodeView]) -> float:
    """The price of all in USD per hour; an unknown price counts as 0."""
    return sum(view.price_per_hour or 0.0 for view in views)


@dataclass(frozen=True)
class Snapshot:
    """One state of the cluster, each list sorted by name."""

    pods: tuple[PodView, ...] = ()
    machines: tuple[MachineView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    instances: tuple[InstanceView, ...] = ()

    @property
    def total(self) -> int:
        return sum(not pod.leaving for pod in self.pods)

    @property
    def running(self) -> int:
        return sum(pod.running and not pod.leaving for pod in self.pods)

    @property
    def pending(self) -> int:
        return self.total - self.running

    @property
    def hourly_cost(self) -> float:
        """The price of all launched machines in USD per hour; an unknown price counts as 0."""
        return round(hourly(machine for machine in self.machines if machine.provider_id), 6)

    @property
    def live_instances(self) -> tuple[InstanceView, ...]:
        return tuple(instance for instance in self.instances if instance.live)


class Observer:
    """Takes snapshots of the added nodes and of the cluster's instances.

    Instances that terminated before ``start`` are left out: EC2 lists them for some time.
    """

    def __init__(self, kube: Kube, emulator: Emulator) -> None:
        self._kube = kube
        self._emulator = emulator
        self._ended: frozenset[str] = frozenset()

    async def start(self) -> None:
        """Record the instances that have already terminated. Raises Unreachable."""
        instances = await self._emulator.instances()
        self._ended = frozenset(one.instance_id for one in instances if not one.live)

    async def take(self) -> Snapshot:
        """Take one snapshot. Raises TransientError."""
        pods, machines, claims, nodes, instances = await asyncio.gather(
            self._kube.list(PODS, NAMESPACE, label_selector=WORKLOAD_SELECTOR),
            self._kube.list(MACHINES),
            self._kube.list(NODE_CLAIMS),
            self._kube.list(NODES),
            self._emulator.instances(),
        )
        recent = [one for one in instances if one.instance_id not in self._ended]
        added = [raw for raw in nodes.items if _is_added(raw)]
        return build_snapshot(pods.items, [*machines.items, *claims.items], added, recent)


def _is_added(node: Object) -> bool:
    """Whether the node belongs to a pool of either generation (MAP-01)."""
    held = node["metadata"].get("labels") or {}
    return labels.PROVISIONER_NAME in held or labels.NODE_POOL in held


def build_snapshot(
    pods: list[Object],
    machines: list[Object],
    nodes: list[Object],
    instances: list[InstanceView],
) -> Snapshot:
    """The snapshot of raw Kubernetes objects. Missing fields are empty."""
    pod_views = sorted((_pod(raw) for raw in pods), key=lambda pod: pod.name)
    machine_views = sorted((_machine(raw) for raw in machines), key=lambda machine: machine.name)
    prices = {view.provider_id: view.price_per_hour for view in machine_views if view.provider_id}
    counts = Counter(pod.node for pod in pod_views if pod.running and not pod.leaving)
    node_views = sorted((_node(raw, prices, counts) for raw in nodes), key=lambda node: node.name)
    return Snapshot(
        tuple(pod_views),
        tuple(machine_views),
        tuple(node_views),
        tuple(sorted(instances, key=lambda instance: instance.instance_id)),
    )


def _pod(raw: Object) -> PodView:
    return PodView(
        name=raw["metadata"]["name"],
        node=raw.get("spec", {}).get("nodeName") or "",
        running=raw.get("status", {}).get("phase") == "Running",
        leaving="deletionTimestamp" in raw["metadata"],
    )


def _machine(raw: Object) -> MachineView:
    metadata, status = raw["metadata"], raw.get("status") or {}
    return MachineView(
        name=metadata["name"],
        provider_id=status.get("providerID") or "",
        reached=frozenset(map(domain_condition, true_conditions(status))),
        leaving="deletionTimestamp" in metadata,
        price_per_hour=price_of(raw),
    )


def _node(raw: Object, prices: dict[str, float | None], counts: Counter[str]) -> NodeView:
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    values = metadata.get("labels") or {}
    provider_id = spec.get("providerID") or ""
    return NodeView(
        name=metadata["name"],
        provider_id=provider_id,
        instance_type=values.get(labels.INSTANCE_TYPE, ""),
        zone=values.get(labels.ZONE, ""),
        capacity_type=values.get(labels.CAPACITY_TYPE, ""),
        price_per_hour=prices.get(provider_id),
        pods=counts[metadata["name"]],
        ready="Ready" in true_conditions(raw.get("status") or {}),
        cordoned=bool(spec.get("unschedulable")),
        leaving="deletionTimestamp" in metadata,
        tainted=any(t.get("key") == labels.DISRUPTED_TAINT_KEY for t in spec.get("taints") or ()),
    )


def price_of(machine: Object) -> float | None:
    """The price in USD per hour that the launcher wrote; None before the launch."""
    price = (machine["metadata"].get("annotations") or {}).get(labels.PRICE_ANNOTATION, "")
    return int(price) / 1_000_000 if price.isdecimal() else None


def true_conditions(status: dict[str, Any]) -> list[str]:
    """The types of the conditions that are True."""
    return [c["type"] for c in status.get("conditions") or [] if c.get("status") == "True"]


def changes(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, str]]:
    """The changes between two snapshots, as (event, object) pairs in causal order."""
    if before.total != after.total:
        yield f"{after.total} pods exist", "deployment/inflate"
    yield from _machine_changes(before, after)
    yield from _instance_changes(before, after)
    yield from _node_changes(before, after)
    if before.running != after.running:
        yield f"{after.running} of {after.total} pods run", "deployment/inflate"
    if before.hourly_cost != after.hourly_cost:
        yield f"machines cost ${after.hourly_cost:.4f} an hour", "cluster/machines"


def _machine_changes(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, str]]:
    old = {machine.name: machine for machine in before.machines}
    new = {machine.name: machine for machine in after.machines}
    for name, machine in new.items():
        known = old.get(name)
        if known is None:
            yield "Machine created", f"machine/{name}"
        for condition in _CONDITIONS_IN_ORDER:
            if condition in machine.reached and (not known or condition not in known.reached):
                yield f"Machine{condition}", f"machine/{name}"
        if machine.leaving and not (known and known.leaving):
            yield "Machine deleted", f"machine/{name}"
    for name in old.keys() - new.keys():
        yield "Machine gone", f"machine/{name}"


_CONDITIONS_IN_ORDER = (LAUNCHED, REGISTERED, INITIALIZED)


def _instance_changes(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, str]]:
    old = {instance.instance_id: instance.state for instance in before.instances}
    for instance in after.instances:
        if old.get(instance.instance_id) != instance.state:
            where = f"{instance.instance_type}, {instance.zone}"
            yield f"instance {instance.state} ({where})", f"instance/{instance.instance_id}"


def _node_changes(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, str]]:
    """New nodes before deleted nodes: replacements are ready first."""
    old = {node.name: node for node in before.nodes}
    new = {node.name: node for node in after.nodes}
    for name, node in new.items():
        known = old.get(name)
        if known is None:
            yield "node joined", f"node/{name}"
        if node.ready and not (known and known.ready):
            yield "node ready", f"node/{name}"
    for name, node in new.items():
        yield from _scheduling_changes(old.get(name), node)
    for name in sorted(old.keys() - new.keys()):
        yield "node gone", f"node/{name}"


def _scheduling_changes(known: NodeView | None, node: NodeView) -> Iterator[tuple[str, str]]:
    """Changes of the taint, of the cordon and of the deletion timestamp of a node."""
    was_tainted, was_cordoned = (known.tainted, known.cordoned) if known else (False, False)
    if node.tainted != was_tainted:
        yield "node tainted" if node.tainted else "node untainted", f"node/{node.name}"
    if node.cordoned != was_cordoned:
        yield "node cordoned" if node.cordoned else "node uncordoned", f"node/{node.name}"
    if node.leaving and not (known and known.leaving):
        yield "node deleted", f"node/{node.name}"
