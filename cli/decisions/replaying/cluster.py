"""A cluster in simulated time, for another course of a recorded period: what is there, and what it costs.

Simpler than a real one: an instance that is planned is launched, as its cheapest offering, and its node is ready after
a fixed time; pods bind where the plan puts them, and wait for the machine that was launched for them, as with
nominations; an evicted pod waits again at once.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from cli.decisions.replaying.demand import Arrival, Removal, Wish, as_new, is_wanted, workload_of
from shared.disruption.candidates import Prices, offering_prices, price_in
from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodePool
from shared.domain.resources import sum_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, is_provisionable, is_reschedulable
from shared.solver.plan import Plan, PlannedMachine

HOUR = 3600.0


@dataclass
class Totals:
    """What is compared. ``dollars`` and ``node_seconds``: from the beginning to the end."""

    dollars: float = 0.0
    node_seconds: float = 0.0
    waits: list[float] = field(default_factory=list)
    """Seconds from when a pod came, or was evicted, until it had a node."""
    evictions: int = 0
    launches: int = 0
    most_machines: int = 0
    """At once."""


@dataclass
class Cluster:
    """``start`` is its first moment; ``now`` in seconds since the epoch."""

    start: Snapshot
    now: float
    totals: Totals = field(default_factory=Totals)
    pods: dict[str, Pod] = field(default_factory=dict)
    """By UID."""
    nodes: dict[str, Node] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    """By key."""
    version: int = 0
    """Grows with each change."""
    _prices: Prices = field(init=False)
    _made: int = 0
    _workloads: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """Workload -> UIDs of its pods."""
    _on: dict[str, str] = field(default_factory=dict)
    """Node -> key of its machine."""
    _promised: dict[str, str] = field(default_factory=dict)
    """UID of a pod that waits -> key of the machine that was launched for it and has no node yet."""
    _unbound: dict[str, None] = field(default_factory=dict)
    """UIDs of the pods without a node."""
    _order: list[str] = field(default_factory=list)
    """UIDs of all pods, sorted."""
    _paid: int = 0
    """What all machines cost now, in micro-USD per hour."""
    _ranks: list[tuple[str, str]] = field(default_factory=list)
    """(name, key) of all machines, sorted."""
    _pools: tuple[NodePool, ...] | None = None
    """With what they use; None after a machine came or went."""

    def __post_init__(self) -> None:
        self._prices = offering_prices(self.start.catalogue)
        self._types = {kind.name: kind for kind in self.start.catalogue.types}
        for pod in self.start.pods:
            if not pod.terminating:
                self._put(pod)
        self.nodes = {node.name: node for node in self.start.nodes}
        self.machines = {machine.key: machine for machine in self.start.machines}
        self._on = {one.node_name: key for key, one in self.machines.items() if one.node_name}
        self._paid = sum(map(self._price, self.machines.values()))
        self._ranks = sorted((machine.name, key) for key, machine in self.machines.items())

    def _put(self, pod: Pod) -> None:
        if pod.uid not in self.pods:
            insort(self._order, pod.uid)
        self.pods[pod.uid] = pod
        if not pod.node_name:
            self._unbound[pod.uid] = None
        self._workloads[workload_of(pod)][pod.uid] = None

    def _take(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        del self._order[bisect_left(self._order, pod.uid)]
        self._unbound.pop(pod.uid, None)
        self._promised.pop(pod.uid, None)
        self._workloads[workload_of(pod)].pop(pod.uid, None)

    def pass_time(self, until: float) -> None:
        """Machines cost money meanwhile."""
        seconds = until - self.now
        self.totals.most_machines = max(self.totals.most_machines, len(self.machines))
        if not seconds:
            return
        self.totals.dollars += self.micro_usd_per_hour() / 1e6 * seconds / HOUR
        self.totals.node_seconds += len(self.machines) * seconds
        self.now = until

    def micro_usd_per_hour(self) -> int:
        """What all machines cost now."""
        return self._paid

    def _price(self, machine: Machine) -> int:
        return price_in(self._prices, machine) or machine.noted_price or 0

    def snapshot(self) -> Snapshot:
        """As a scheduler sees it."""
        if self._pools is None:
            self._pools = tuple(map(self._with_usage, self.start.pools))
        return replace(
            self.start,
            generation=self.version,
            pods=tuple(map(self._counted().__getitem__, self._order)),
            nodes=tuple(sorted(self.nodes.values(), key=lambda node: node.name)),
            machines=tuple([self.machines[key] for _, key in self._ranks]),
            pools=self._pools,
        )

    def _counted(self) -> dict[str, Pod]:
        """Pods by UID. One that was promised a machine takes room there (POD-01)."""
        if not self._promised:
            return self.pods
        return self.pods | {
            uid: replace(self.pods[uid], node_name=self.machines[key].name)
            for uid, key in self._promised.items()
        }

    def _with_usage(self, pool: NodePool) -> NodePool:
        own = (m.capacity for m in self.machines.values() if m.pool_key == pool.key)
        return replace(pool, usage=sum_of(own))

    def waits(self) -> bool:
        """Do pods wait for a plan?"""
        return any(
            uid not in self._promised and is_provisionable(self.pods[uid]) for uid in self._unbound
        )

    def fulfil(self, wish: Wish) -> None:
        """A pod comes or goes."""
        self.version += 1
        if isinstance(wish, Arrival):
            self._put(wish.pod)
        elif isinstance(wish, Removal):
            self._remove_one(wish.workload)

    def _remove_one(self, workload: str) -> None:
        """As a controller does: one that waits first, then the newest."""
        uids = self._workloads[workload]
        own = [pod for uid in uids if is_wanted(pod := self.pods[uid])]
        if own:
            gone = max(own, key=lambda pod: (not pod.node_name, pod.created_at, pod.uid))
            self._take(gone)
            self._note_pods(gone.node_name)

    def carry_out(self, plan: Plan) -> list[str]:
        """Bind pods to nodes that are there, and launch machines. Keys of the new machines."""
        for name, uids in plan.existing.items():
            if name in self.nodes and self.nodes[name].ready:
                for uid in uids:
                    self._bind(uid, name)
        targets = {machine.name: key for key, machine in self.machines.items()}
        keys = [self.launch(planned) for planned in plan.machines]
        for key, planned in zip(keys, plan.machines, strict=True):
            self._promise(planned.pods, key)
        for name, uids in plan.existing.items():
            if name in targets and name not in self.nodes:
                self._promise(uids, targets[name])
        return keys

    def _promise(self, uids: Iterable[str], key: str) -> None:
        for uid in uids:
            if uid in self.pods and not self.pods[uid].node_name:
                self._promised[uid] = key

    def _bind(self, uid: str, node: str) -> None:
        pod = self.pods.get(uid)
        if pod is None or pod.node_name:
            return
        self.version += 1
        running = {"node_name": node, "unschedulable": False, "phase": "Running"}
        self.pods[uid] = replace(pod, started_at=self.now, **running)
        self._unbound.pop(uid, None)
        self.totals.waits.append(self.now - pod.created_at)
        self._note_pods(node)

    def _note_pods(self, node: str) -> None:
        key = self._on.get(node)
        if key in self.machines:
            self.machines[key] = replace(self.machines[key], last_pod_event_at=self.now)

    def launch(self, planned: PlannedMachine) -> str:
        """The key of the new machine, which has no node yet."""
        self.version += 1
        self._made += 1
        self.totals.launches += 1
        kind, at = self._types[planned.instance_type], planned.offering
        pool = next(pool for pool in self.start.pools if pool.key == planned.pool_key)
        own = {k: v[0] for k, v in kind.labels.items() if len(v) == 1}
        own |= planned.labels
        own |= {
            keys.ZONE: at.zone,
            keys.CAPACITY_TYPE: at.capacity_type,
            keys.INSTANCE_TYPE: kind.name,
            pool.label_key: pool.name,
        }
        made = Machine(
            uid=f"again-{self._made}",
            name=f"{pool.name}-again-{self._made}",
            pool=pool.name,
            generation_api=pool.generation_api,
            created_at=self.now,
            labels=own,
            requirements=planned.requirements,
            requests=planned.requests,
            taints=planned.taints,
            node_class=planned.node_class,
            expire_seconds=pool.expire_seconds if not pool.api.replaces_expired else None,
            termination_grace_seconds=pool.termination_grace_seconds,
            capacity=kind.capacity,
            allocatable=kind.allocatable(),
            conditions={LAUNCHED: Condition("True", LAUNCHED, "", self.now)},
        )
        self.machines[made.key] = made
        insort(self._ranks, (made.name, made.key))
        self._pools = None
        self._paid += self._price(made)
        return made.key

    def join(self, key: str) -> None:
        """The node of this machine is ready with all its resources."""
        machine = self.machines.get(key)
        if machine is None or machine.terminating:
            return
        self.version += 1
        name = f"node-{machine.uid}"
        own = machine.labels | {
            keys.HOSTNAME: name,
            keys.REGISTERED: "true",
            keys.INITIALIZED: "true",
        }
        true = {one: Condition("True", one, "", self.now) for one in (REGISTERED, INITIALIZED)}
        self.machines[key] = replace(
            machine, node_name=name, labels=own, conditions={**machine.conditions, **true}
        )
        self._on[name] = key
        self.nodes[name] = Node(
            uid=f"uid-{name}",
            name=name,
            labels=own,
            taints=machine.taints,
            created_at=self.now,
            ready=True,
            capacity=machine.capacity,
            allocatable=machine.allocatable,
        )
        promised = [uid for uid, target in self._promised.items() if target == key]
        for uid in promised:
            del self._promised[uid]
            self._bind(uid, name)

    def is_ready(self, key: str) -> bool:
        """Whether this machine has a node that pods can run on."""
        return key in self.machines and self.machines[key].has(INITIALIZED)

    def close(self, names: Iterable[str]) -> None:
        """No more pods to these nodes."""
        for name in names:
            if name in self.nodes:
                self.version += 1
                self.nodes[name] = replace(self.nodes[name], unschedulable=True)

    def drain(self, key: str) -> None:
        """The machine ends: its pods wait for another node."""
        machine = self.machines.get(key)
        if machine is None or machine.terminating:
            return
        self.version += 1
        self.machines[key] = replace(machine, terminating=True, deleted_at=self.now)
        self._promised = {uid: target for uid, target in self._promised.items() if target != key}
        for pod in [p for p in self.pods.values() if p.node_name == machine.node_name]:
            if not machine.node_name:
                break
            self._take(pod)
            if is_reschedulable(pod):
                self._made += 1
                self.totals.evictions += 1
                uid = f"again-{self._made:08d}"
                self._put(as_new(pod, self.now, uid))
        self.nodes.pop(machine.node_name, None)

    def end(self, key: str) -> None:
        """Its instance has ended."""
        self.version += 1
        gone = self.machines.pop(key, None)
        if gone is None:
            return
        self._paid -= self._price(gone)
        del self._ranks[bisect_left(self._ranks, (gone.name, key))]
        self._pools = None
