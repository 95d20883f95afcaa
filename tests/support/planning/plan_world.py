"""What a snapshot lets a plan do, derived from the rules: offerings, labels of nodes to be, usage of pools.

The facts that ``tests.support.planning.plan_checker`` judges a plan by; like it, independent of the solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.size_settings import USUAL, SizeSettings
from shared.domain.instance_types.sizes import adapted
from shared.domain.instance_types.types import InstanceType, Offering
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.namespaces import NAME_LABEL
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan
from tests.support.cluster.kubernetes_rules import (
    PossibleLabels,
    collide,
    holds,
    may_run_on,
    overrun,
    tolerated,
    total,
    with_named_namespaces,
)
from tests.support.planning.topology_rules import Host


class World:
    """One snapshot, and the plan that answers it."""

    def __init__(self, plan: Plan, snapshot: Snapshot, reschedule: frozenset[str]) -> None:
        labels = {n.name: {**n.labels, NAME_LABEL: n.name} for n in snapshot.namespaces}
        pods = tuple(with_named_namespaces(pod, labels) for pod in snapshot.pods)
        self.plan, self.reschedule = plan, reschedule
        self.snapshot = replace(snapshot, pods=pods)
        self.pods = {pod.uid: pod for pod in pods}
        self.types = {t.name: t for t in snapshot.catalogue.types}
        self.pools = {pool.key: pool for pool in snapshot.pools}
        self.nodes = {node.name: node for node in snapshot.nodes}
        self._classes = {found.key: found for found in snapshot.node_classes}
        self._sized: dict[tuple[str, str, str], InstanceType] = {}
        self._offers: dict[tuple[str, tuple[Expression, ...], str], list[Offering]] = {}

    def sized(self, shape: InstanceType, owner: NodePool | Machine) -> InstanceType:
        """The type as the kubelet's settings and the node class leave it to pods (P-20, EC-10)."""
        at = (type(owner).__name__, owner.key, shape.name)
        if at not in self._sized:
            found = self._classes.get(owner.node_class_key)
            settings = SizeSettings.of(owner, found) if found else USUAL
            self._sized[at] = adapted(shape, settings)
        return self._sized[at]

    def offers(
        self, shape: InstanceType, requirements: tuple[Expression, ...], pool: NodePool
    ) -> list[Offering]:
        """What can be bought of a type within these requirements, the pool and its subnets."""
        at = (shape.name, requirements, pool.key)
        if at not in self._offers:
            self._offers[at] = self._offered(shape, (*requirements, *pool.requirements), pool)
        return self._offers[at]

    def _offered(
        self, shape: InstanceType, asked: tuple[Expression, ...], pool: NodePool
    ) -> list[Offering]:
        zones = self.zones_of(pool)
        return [
            o
            for o in self.sized(shape, pool).offerings
            if o.zone in zones
            and (o.capacity_type, shape.name, o.zone) not in self.snapshot.unavailable
            and allows(asked, keys.ZONE, o.zone)
            and allows(asked, keys.CAPACITY_TYPE, o.capacity_type)
        ]

    def zones_of(self, pool: NodePool) -> frozenset[str]:
        """Zones of its node class's subnets; none for a pool that must not make machines."""
        for found in self.snapshot.node_classes:
            if found.key == pool.node_class_key:
                usable = found.ready and not found.terminating
                usable = usable and not pool.terminating and not pool.is_static
                return frozenset(s.zone for s in found.subnets) if usable else frozenset()
        return frozenset()

    def labels(
        self,
        shape: InstanceType,
        requirements: tuple[Expression, ...],
        labels: dict[str, str],
        pool: NodePool,
    ) -> PossibleLabels:
        """The labels of the node that a machine of this type becomes."""
        offers = self.offers(shape, requirements, pool)
        known = {key: frozenset(values) for key, values in shape.labels.items()}
        for key in {one.key for one in requirements} & known.keys():
            allowed = frozenset(v for v in known[key] if allows(requirements, key, v))
            known[key] = allowed or known[key]
        return {
            keys.REGION: frozenset({self.snapshot.catalogue.region}),
            **{keys.normalise(k): frozenset({v}) for k, v in labels.items()},
            **known,
            keys.ZONE: frozenset(o.zone for o in offers),
            keys.CAPACITY_TYPE: frozenset(o.capacity_type for o in offers),
        }

    def largest(self, names: tuple[str, ...], resource: str, owner: NodePool | Machine) -> int:
        if resource == "nodes":
            return 1
        shapes = [self.sized(self.types[n], owner) for n in names if n in self.types]
        return max((s.capacity.get(resource, 0) for s in shapes), default=0)

    def used(self, pool: NodePool, resource: str) -> int:
        """By the pool's machines, and by its nodes that have none; not by those that go."""
        machines = [m for m in self.snapshot.machines if m.pool_key == pool.key]
        known = {m.provider_id for m in machines if m.provider_id}
        used = 0
        for machine in machines:
            if not machine.terminating and machine.capacity and resource != "nodes":
                used += machine.capacity.get(resource, 0)
            elif not machine.terminating:
                used += self.largest(listed_types(machine), resource, machine)
        for node in self.snapshot.nodes:
            lone = node.pool_key == pool.key and node.provider_id not in known
            if lone and not node.terminating:
                used += 1 if resource == "nodes" else node.capacity.get(resource, 0)
        return used

    def machine_of(self, name: str) -> Machine | None:
        provider = self.nodes[name].provider_id if name in self.nodes else ""
        for machine in self.snapshot.machines:
            if name in (machine.node_name, machine.name) or (
                provider and machine.provider_id == provider
            ):
                return machine
        return None

    def staying(self, node: str) -> list[Pod]:
        return [
            p
            for p in self.snapshot.pods
            if p.node_name == node and not p.is_terminal and p.uid not in self.reschedule
        ]

    def new_hosts(self) -> Iterator[Host]:
        for machine in self.plan.machines:
            pool = self.pools.get(machine.pool_key)
            shapes = [self.types[n] for n in machine.instance_types if n in self.types]
            merged: dict[str, frozenset[str]] = {}
            for shape in shapes:
                if pool is None:
                    break
                labels = self.labels(shape, machine.requirements, machine.labels, pool)
                for key, values in labels.items():
                    merged[key] = merged.get(key, frozenset()) | values
            merged[keys.HOSTNAME] = frozenset({f"machine {machine.name}"})
            added = [self.pods[uid] for uid in machine.pods if uid in self.pods]
            yield Host(machine.name, merged, machine.taints, (), tuple(added))

    def existing_hosts(self) -> Iterator[Host]:
        for node in self.snapshot.nodes:
            labels = {keys.normalise(k): frozenset({v}) for k, v in node.labels.items()}
            labels.setdefault(keys.HOSTNAME, frozenset({node.name}))
            staying = tuple(p for p in self.staying(node.name) if not p.terminating)
            added = self.added(node.name)
            yield Host(node.name, labels, node.taints, staying, added, not node.terminating)
        for machine in self.snapshot.machines:
            name = machine.node_name or machine.name
            if name not in self.nodes and name in self.plan.existing:
                labels = {
                    keys.normalise(e.key): frozenset(e.values)
                    for e in machine.requirements
                    if e.operator == "In"
                }
                decided = {keys.normalise(k): frozenset({v}) for k, v in machine.labels.items()}
                labels = {**labels, **decided, keys.HOSTNAME: frozenset({name})}
                yield Host(name, labels, machine.taints, (), self.added(name), False)

    def added(self, name: str) -> tuple[Pod, ...]:
        uids = self.plan.existing.get(name, ())
        return tuple(self.pods[uid] for uid in uids if uid in self.pods)

    def reachable(self, pod: Pod, key: str) -> frozenset[str]:
        """Domains of a key in which a new machine could take this pod, were it alone."""
        return frozenset().union(
            *(labels.get(key, frozenset()) for labels in self.alone(pod, with_room=False))
        )

    def alone(self, pod: Pod, *, with_room: bool) -> Iterator[PossibleLabels]:
        """Labels of the new machines that could take this pod, each narrowed to what it asks."""
        for pool, shape, labels in self.buildable:
            if not tolerated(pool.taints, pod.tolerations) or not may_run_on(pod, labels):
                continue
            narrowed = self._narrowed(pod, pool, shape, labels)
            if narrowed is None:
                continue
            daemons = [
                d
                for d in self.snapshot.daemon_sets
                if tolerated(pool.taints, d.tolerations) and may_run_on(d, labels)
            ]
            if any(collide(pod.host_ports, d.host_ports) for d in daemons):
                continue
            wanted = total([pod.requests, *(d.requests for d in daemons)])
            if not with_room or not overrun(wanted, self.sized(shape, pool).allocatable()):
                yield narrowed

    def _narrowed(
        self, pod: Pod, pool: NodePool, shape: InstanceType, labels: PossibleLabels
    ) -> PossibleLabels | None:
        """Zone and capacity type belong together: only offerings that one alternative allows."""
        offers = [
            o
            for o in self.offers(shape, (), pool)
            if may_run_on(
                pod,
                {
                    **labels,
                    keys.ZONE: frozenset({o.zone}),
                    keys.CAPACITY_TYPE: frozenset({o.capacity_type}),
                },
            )
        ]
        if not offers:
            return None
        zones, kinds = zip(*((o.zone, o.capacity_type) for o in offers), strict=True)
        return {**labels, keys.ZONE: frozenset(zones), keys.CAPACITY_TYPE: frozenset(kinds)}

    @cached_property
    def buildable(self) -> list[tuple[NodePool, InstanceType, PossibleLabels]]:
        """Each usable pool with each type it may build, and the labels such a node may have."""
        found: list[tuple[NodePool, InstanceType, PossibleLabels]] = []
        for pool in self.snapshot.pools:
            named = {**pool.labels, pool.label_key: pool.name}
            if pool.generation_api == V1:
                named[keys.NODE_CLASS] = pool.node_class
            for shape in self.snapshot.catalogue.types:
                if not self.offers(shape, (), pool):
                    continue
                labels = self.labels(shape, pool.requirements, named, pool)
                open_keys = {
                    keys.normalise(e.key): frozenset(e.values)
                    for e in pool.requirements
                    if e.operator == "In" and keys.normalise(e.key) not in keys.WELL_KNOWN
                }
                labels = {**open_keys, **labels}
                asked = [e for e in pool.requirements if keys.normalise(e.key) in keys.WELL_KNOWN]
                if all(holds_for_some(e, labels) for e in asked):
                    found.append((pool, shape, labels))
        return found


def holds_for_some(expression: Expression, labels: PossibleLabels) -> bool:
    """Can the label have a value that the expression allows? A custom label that is open can."""
    key = keys.normalise(expression.key)
    if key not in labels and key not in keys.WELL_KNOWN:
        return True
    return any(holds(expression, value) for value in labels.get(key) or (None,))


def allows(expressions: tuple[Expression, ...], key: str, value: str) -> bool:
    return all(holds(e, value) for e in expressions if keys.normalise(e.key) == key)


def listed_types(machine: Machine) -> tuple[str, ...]:
    """What a machine is, or may become."""
    if machine.instance_type:
        return (machine.instance_type,)
    return tuple(
        value
        for e in machine.requirements
        if keys.normalise(e.key) == keys.INSTANCE_TYPE and e.operator == "In"
        for value in e.values
    )
