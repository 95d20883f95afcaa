"""An independent check that a plan keeps what Kubernetes and Karpenter promise to pods.

Written from the rules and not from the solver; it imports records only. ``violations`` lists what is wrong in words,
``check_plan`` asserts that nothing is. Checked, for every type, zone and capacity type that a machine may become:

- every pod that waits (POD-01, POD-09) has exactly one verdict: a machine, existing capacity, or a reason;
- node selector and affinity, taints, host ports, room beside daemon pods (SCH-40..47), pool requirements, minValues
  (with BestEffort a machine may have fewer and must say so, SCH-12);
- an available offering per listed type; the planned offering is the cheapest; the plan's cost is their sum;
- limits, each machine counted as its largest type (SCH-100); the room, labels and taints of existing capacity (SCH-50);
- pod rules between pods, see ``topology_rules``; volumes, see ``volume_rules``;
- a pod without a place fits no new machine even alone, in the domain that its reason says was left by its spread rules,
  or its reason names what else forbids it.

Types are sized as their pool's settings leave them to pods. Not checked: preferences (they may be given up), and
whether a better plan exists.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.instance_types.types import InstanceType
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.nodes import Node, is_ephemeral
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, is_provisionable, is_reschedulable
from shared.solver.plan import Plan, PlannedMachine
from tests.support.cluster.kubernetes_rules import (
    PossibleLabels,
    collide,
    holds,
    overrun,
    runs_on,
    tolerated,
    total,
)
from tests.support.planning import topology_rules, volume_rules
from tests.support.planning.plan_world import World, holds_for_some, listed_types

_OTHER_REASONS = ("limit", "topology", "port", "volume", "minValues", "cannot be planned")
"""Words of a reason that does not claim that the pod fits no machine."""


def check_plan(
    plan: Plan,
    snapshot: Snapshot,
    reschedule: frozenset[str] = frozenset(),
    *,
    best_effort: bool = False,
) -> None:
    """Asserts that the plan keeps every promise above. ``reschedule`` as it was given to ``solve``; ``best_effort``:
    its minValues policy."""
    found = violations(plan, snapshot, reschedule, best_effort=best_effort)
    assert not found, "\n".join(found)


def violations(
    plan: Plan,
    snapshot: Snapshot,
    reschedule: frozenset[str] = frozenset(),
    *,
    best_effort: bool = False,
) -> list[str]:
    """What is wrong with the plan, in words; empty when nothing is."""
    checker = _Checker(plan, snapshot, reschedule, best_effort=best_effort)
    return [
        *checker.verdicts(),
        *(fault for machine in plan.machines for fault in checker.machine(machine)),
        *checker.costs(),
        *checker.limits(),
        *(fault for name in plan.existing for fault in checker.existing(name)),
        *checker.between_pods(),
        *checker.left_out(),
    ]


class _Checker:
    """One plan; each method yields what is wrong in one respect."""

    def __init__(
        self, plan: Plan, snapshot: Snapshot, reschedule: frozenset[str], *, best_effort: bool
    ) -> None:
        self.plan, self.best_effort = plan, best_effort
        self.world = World(plan, snapshot, reschedule)

    # Verdicts

    def verdicts(self) -> Iterator[str]:
        given = [uid for m in self.plan.machines for uid in m.pods]
        given += [uid for uids in self.plan.existing.values() for uid in uids]
        counted = Counter([*given, *self.plan.unschedulable])
        asked = {p.uid for p in self.world.snapshot.pods if self._waits(p)}
        for uid, count in sorted(counted.items()):
            if count > 1:
                yield f"{uid} has {count} verdicts"
            if uid not in asked:
                yield f"{uid} did not wait for a place"
        for uid in sorted(asked - set(counted)):
            yield f"{uid} has no verdict"
        for uid, reason in self.plan.unschedulable.items():
            if not reason.strip():
                yield f"{uid} has no reason"
        names = Counter(m.name for m in self.plan.machines)
        yield from (f"two machines are called {name}" for name, n in names.items() if n > 1)

    def _waits(self, pod: Pod) -> bool:
        moves = pod.uid in self.world.reschedule and is_reschedulable(pod)
        return moves or is_provisionable(pod)

    # New machines

    def machine(self, machine: PlannedMachine) -> Iterator[str]:
        pool = self.world.pools.get(machine.pool_key)
        if pool is None or not self.world.zones_of(pool):
            yield f"{machine.name}: pool {machine.pool_key} cannot make machines"
            return
        pods = [self.world.pods[uid] for uid in machine.pods if uid in self.world.pods]
        if not pods or not machine.instance_types:
            yield f"{machine.name}: {len(pods)} pods, {len(machine.instance_types)} types"
            return
        yield from self._taints(machine.name, machine.taints, pods)
        yield from _ports(machine.name, pods)
        if set(pool.taints) != set(machine.taints) or not _has(machine.labels, pool.labels):
            yield f"{machine.name}: taints or labels are not those of its pool"
        for name in machine.instance_types:
            yield from self._one_type(machine, pool, name, pods)
        yield from self._offering(machine, pool)
        yield from self._min_values(machine, pool)

    def _one_type(
        self, machine: PlannedMachine, pool: NodePool, name: str, pods: list[Pod]
    ) -> Iterator[str]:
        """Everything that must hold if the machine becomes this type."""
        at = f"{machine.name} as {name}"
        shape = self.world.types.get(name)
        if shape is None:
            yield f"{at}: unknown type"
            return
        if not self.world.offers(shape, machine.requirements, pool):
            yield f"{at}: no available offering"
            return
        labels = self.world.labels(shape, machine.requirements, machine.labels, pool)
        for expression in (*machine.requirements, *pool.requirements):
            if not holds_for_some(expression, labels):
                yield f"{at}: {expression.key} {expression.operator} {expression.values} is not met"
        for pod in pods:
            if not runs_on(pod, labels):
                yield f"{at}: node selector or affinity of {pod.uid} is not met"
        sized = self.world.sized(shape, pool)
        yield from self._room(at, sized, labels, machine.taints, pods)

    def _room(
        self,
        at: str,
        shape: InstanceType,
        labels: PossibleLabels,
        taints: tuple[Taint, ...],
        pods: list[Pod],
    ) -> Iterator[str]:
        daemons = [
            d
            for d in self.world.snapshot.daemon_sets
            if tolerated(taints, d.tolerations) and runs_on(d, labels)
        ]
        wanted = total([*(p.requests for p in pods), *(d.requests for d in daemons)])
        lacking = overrun(wanted, shape.allocatable())
        if lacking:
            yield f"{at}: not enough {', '.join(lacking)}"
        for daemon in daemons:
            if any(collide(pod.host_ports, daemon.host_ports) for pod in pods):
                yield f"{at}: a host port of daemon set {daemon.key} is taken"

    def _offering(self, machine: PlannedMachine, pool: NodePool) -> Iterator[str]:
        """The planned type and offering are the cheapest that the machine may become."""
        prices = {
            (name, o.zone, o.capacity_type): o.price_micro_usd_per_hour
            for name in machine.instance_types
            if name in self.world.types
            for o in self.world.offers(self.world.types[name], machine.requirements, pool)
        }
        planned = machine.offering
        price = prices.get((machine.instance_type, planned.zone, planned.capacity_type))
        if price is None or price != planned.price_micro_usd_per_hour:
            yield f"{machine.name}: its offering cannot be bought"
        elif price > min(prices.values()):
            yield f"{machine.name}: a cheaper offering is allowed"

    def _min_values(self, machine: PlannedMachine, pool: NodePool) -> Iterator[str]:
        """SCH-12: what the machine itself still asks for it has; less than its pool asks for is said, and only with
        BestEffort."""
        yield from self._too_few(machine, machine.requirements)
        lacking = list(self._too_few(machine, pool.requirements))
        if not self.best_effort:
            yield from lacking
        if machine.min_values_relaxed != bool(lacking):
            yield f"{machine.name}: minValues relaxed is {machine.min_values_relaxed}"

    def _too_few(
        self, machine: PlannedMachine, requirements: tuple[Expression, ...]
    ) -> Iterator[str]:
        shapes = [self.world.types[n] for n in machine.instance_types if n in self.world.types]
        for expression in requirements:
            key = keys.normalise(expression.key)
            values = {v for s in shapes for v in _values(s, key) if holds(expression, v)}
            if len(values) < (expression.min_values or 0):
                yield f"{machine.name}: {len(values)} values of {key}, minValues wants more"

    def _taints(self, name: str, taints: tuple[Taint, ...], pods: list[Pod]) -> Iterator[str]:
        for pod in pods:
            if not tolerated(taints, pod.tolerations):
                yield f"{name}: {pod.uid} does not tolerate its taints"

    # The whole plan

    def costs(self) -> Iterator[str]:
        cost = sum(m.offering.price_micro_usd_per_hour for m in self.plan.machines)
        if cost != self.plan.cost_micro_usd_per_hour:
            yield f"the plan costs {cost}, it says {self.plan.cost_micro_usd_per_hour}"
        bound = self.plan.lower_bound_micro_usd_per_hour
        if bound is not None and bound > cost:
            yield f"the lower bound {bound} is above the cost {cost}"

    def limits(self) -> Iterator[str]:
        """SCH-100: what is there and what is planned, each machine as its largest type."""
        for pool in self.world.snapshot.pools:
            planned = [m for m in self.plan.machines if m.pool_key == pool.key]
            for name, limit in pool.limits.items() if planned else ():
                used = sum(self.world.largest(m.instance_types, name, pool) for m in planned)
                used += self.world.used(pool, name)
                if used > limit:
                    yield f"{pool.key}: {used} {name} planned and used, limit {limit}"

    # Existing capacity

    def existing(self, name: str) -> Iterator[str]:
        pods = [self.world.pods[uid] for uid in self.plan.existing[name] if uid in self.world.pods]
        node = self.world.nodes.get(name)
        machine = self.world.machine_of(name)
        if node is not None:
            yield from self._on_node(node, machine, pods)
        elif machine is not None:
            yield from self._on_machine(machine, pods)
        else:
            yield f"{name} does not exist"
        yield from _ports(name, [*self.world.staying(name), *pods])

    def _on_node(self, node: Node, machine: Machine | None, pods: list[Pod]) -> Iterator[str]:
        if node.terminating or node.unschedulable or (machine and machine.terminating):
            yield f"{node.name} takes no pods: it is cordoned or going"
        ready = not node.is_managed or node.is_initialized or _is_initialized(machine)
        startup = machine.startup_taints if machine else ()
        lasting = tuple(t for t in node.taints if ready or not (is_ephemeral(t) or t in startup))
        yield from self._taints(node.name, lasting, pods)
        labels = {keys.normalise(k): frozenset({v}) for k, v in node.labels.items()}
        labels.setdefault(keys.HOSTNAME, frozenset({node.name}))
        for pod in pods:
            if not runs_on(pod, labels):
                yield f"{node.name}: node selector or affinity of {pod.uid} is not met"
        staying = self.world.staying(node.name)
        promised = {} if ready or machine is None else machine.allocatable
        allocatable = {**promised, **{k: v for k, v in node.allocatable.items() if v or ready}}
        wanted = total(p.requests for p in (*staying, *pods))
        lacking = overrun(wanted, allocatable)
        if lacking and pods:
            yield f"{node.name}: not enough {', '.join(lacking)}"

    def _on_machine(self, machine: Machine, pods: list[Pod]) -> Iterator[str]:
        """On its way: it may become any type of its list, and must have room as one of them."""
        if machine.terminating:
            yield f"{machine.name} takes no pods: it is going"
        lasting = tuple(t for t in machine.taints if not is_ephemeral(t))
        yield from self._taints(machine.name, lasting, pods)
        known = [self.world.types[n] for n in listed_types(machine) if n in self.world.types]
        listed = [self.world.sized(shape, machine) for shape in known]
        pool = self.world.pools.get(machine.pool_key)
        for shape in listed:
            if pool is None:
                break
            labels = self.world.labels(shape, machine.requirements, machine.labels, pool)
            for pod in pods:
                if not runs_on(pod, labels):
                    at = f"{machine.name} as {shape.name}"
                    yield f"{at}: node selector or affinity of {pod.uid} is not met"
        rooms = [machine.allocatable] if machine.allocatable else [s.allocatable() for s in listed]
        wanted = total(p.requests for p in pods)
        if all(overrun(wanted, room) for room in rooms):
            yield f"{machine.name}: not enough room"

    # Rules between pods

    def between_pods(self) -> list[str]:
        hosts = [*self.world.new_hosts(), *self.world.existing_hosts()]
        return [
            *topology_rules.violations(hosts, self.world.reachable),
            *volume_rules.violations(hosts, self.world.snapshot),
            *volume_rules.overfull(self.plan, self.world.snapshot),
        ]

    # Pods without a place

    def left_out(self) -> Iterator[str]:
        for uid, reason in self.plan.unschedulable.items():
            pod = self.world.pods.get(uid)
            if pod is None or pod.faults or any(word in reason for word in _OTHER_REASONS):
                continue
            alone = self.world.alone(pod, with_room=True)
            if any(_in_the_open_domain(pod, reason, labels) for labels in alone):
                yield f"{uid} fits a new machine, but has no place: {reason}"


def _in_the_open_domain(pod: Pod, reason: str, labels: PossibleLabels) -> bool:
    """May a machine with these labels be where the pod's hard spread rules still let it go, as its verdict says?"""
    for rule in pod.spread:
        key = keys.normalise(rule.topology_key)
        said = re.search(rf"{re.escape(key)} In \[([^]]*)]", reason)
        left = re.split(r"[, ]+", said[1]) if said is not None else None
        hard = rule.when_unsatisfiable == "DoNotSchedule"
        if hard and left is not None and labels.get(key, frozenset()).isdisjoint(left):
            return False
    return True


def _values(shape: InstanceType, key: str) -> set[str]:
    if key == keys.ZONE:
        return {o.zone for o in shape.offerings}
    if key == keys.CAPACITY_TYPE:
        return {o.capacity_type for o in shape.offerings}
    return set(shape.labels.get(key, ()))


def _has(labels: dict[str, str], wanted: dict[str, str]) -> bool:
    return labels.items() >= wanted.items()


def _ports(name: str, pods: list[Pod]) -> Iterator[str]:
    with_ports = [p for p in pods if p.host_ports]
    for left, right in combinations(with_ports, 2):
        if collide(left.host_ports, right.host_ports):
            yield f"{name}: {left.uid} and {right.uid} want the same host port"


def _is_initialized(machine: Machine | None) -> bool:
    return machine is not None and machine.has(INITIALIZED)
