"""A cluster in simulated time: pods are placed, machines are bought, become ready and go. Pure.

The snapshot changes; the planner decides as in the scheduler. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from cli.decisions.plan.launched import joined, launched
from services.scheduler.disruption.conditions import due, occupied_nodes
from services.scheduler.static_capacity.adjustments import names_for
from shared.disruption.candidates import Prices, offering_prices, price_in
from shared.domain import labels as keys
from shared.domain.machines.machine import Condition, Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, is_provisionable, is_reschedulable
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.pools.static import static_machine
from shared.solver.solve import SolverSettings, solve


@dataclass
class Cluster:
    """``bought``: machines planned for pods that waited or for static pools, with the time, in order."""

    snapshot: Snapshot
    settings: SolverSettings
    unschedulable: dict[str, str] = field(default_factory=dict)
    """Pod key -> why no plan places it."""
    bought: list[tuple[float, PlannedMachine]] = field(default_factory=list)
    prices: Prices = field(init=False)

    def __post_init__(self) -> None:
        self.prices = offering_prices(self.snapshot.catalogue)

    def price_of(self, machine: Machine) -> int | None:
        """Micro-USD an hour; None when its offering is not in the catalogue."""
        if machine.capacity_type == keys.RESERVED:
            return 0
        price = price_in(self.prices, machine)
        return machine.noted_price if price is None else price

    def cost(self) -> int:
        """Micro-USD an hour of all machines whose price is known."""
        return sum(self.price_of(machine) or 0 for machine in self.snapshot.machines)

    def provision(self, now: float) -> list[Machine]:
        """Plan the pods that wait: the machines that were bought. Pods of nodes that exist are bound."""
        if not any(is_provisionable(pod) for pod in self.snapshot.pods):
            self.unschedulable = {}
            return []
        plan = solve(self.snapshot, now=now, settings=self.settings)
        self.bought += ((now, planned) for planned in plan.machines)
        made = self.buy(plan.machines, now)
        self._place(plan, now)
        pods = {pod.uid: pod for pod in self.snapshot.pods}
        self.unschedulable = {pods[u].key: why for u, why in plan.unschedulable.items()}
        return made

    def fill(self, pool: NodePool, missing: int, now: float) -> list[Machine]:
        """Machines that a static pool lacks; none where no machine of it can be built."""
        planned = static_machine(self.snapshot, pool, self.settings)
        if isinstance(planned, str):
            return []
        mine = [machine for machine in self.snapshot.machines if machine.pool_key == pool.key]
        wanted = [replace(planned, name=name) for name in names_for(pool, mine, missing)]
        self.bought += ((now, one) for one in wanted)
        return self.buy(wanted, now)

    def buy(self, planned: Iterable[PlannedMachine], now: float) -> list[Machine]:
        """Machines that are launched; their nodes join later."""
        pools = {pool.key: pool for pool in self.snapshot.pools}
        classes = {one.key: one for one in self.snapshot.node_classes}
        kinds = {kind.name: kind for kind in self.snapshot.catalogue.types}
        made = [
            launched(
                one, pool := pools[one.pool_key], classes.get(pool.node_class_key),
                kinds.get(one.instance_type), now,
            )
            for one in planned
        ]  # fmt: skip
        self.snapshot = replace(self.snapshot, machines=(*self.snapshot.machines, *made))
        return made

    def _place(self, plan: Plan, now: float) -> None:
        """Bind pods to nodes; those of machines without a node wait for it."""
        nodes = {node.name for node in self.snapshot.nodes}
        targets = {**plan.existing, **{one.name: one.pods for one in plan.machines}}
        place = {uid: name for name, uids in targets.items() for uid in uids}

        def placed(pod: Pod) -> Pod:
            name = place.get(pod.uid)
            if name is None:
                return pod
            if name in nodes:
                return _bound(pod, name, now)
            return replace(pod, nominated_node=name)

        self.snapshot = replace(self.snapshot, pods=tuple(map(placed, self.snapshot.pods)))
        self._touch(set(targets), now)

    def join(self, uids: Iterable[str], now: float) -> None:
        """The nodes of these machines are ready, and the pods that wait for them run there."""
        coming = set(uids)
        nodes: list[Node] = []
        machines: list[Machine] = []
        for machine in self.snapshot.machines:
            if machine.uid in coming and not machine.node_name:
                machine, node = joined(machine, now)
                nodes.append(node)
            machines.append(machine)
        names = {node.name for node in nodes}
        self.snapshot = replace(
            self.snapshot,
            machines=tuple(machines),
            nodes=(*self.snapshot.nodes, *nodes),
            pods=tuple(
                _bound(pod, pod.nominated_node, now) if pod.nominated_node in names else pod
                for pod in self.snapshot.pods
            ),
        )
        self._touch(names, now)

    def drain(self, uids: Iterable[str], now: float) -> None:
        """Pods leave these machines, which terminate."""
        going = set(uids)
        names = {m.node_name for m in self.snapshot.machines if m.uid in going and m.node_name}
        snapshot = self.snapshot
        self.snapshot = replace(
            snapshot,
            generation=snapshot.generation + 1,
            machines=tuple(
                replace(m, terminating=True, deleted_at=now) if m.uid in going else m
                for m in snapshot.machines
            ),
            nodes=tuple(
                replace(node, terminating=True, unschedulable=True) if node.name in names else node
                for node in snapshot.nodes
            ),
            pods=tuple(
                _waiting(pod) if pod.node_name in names and is_reschedulable(pod) else pod
                for pod in snapshot.pods
            ),
        )

    def remove(self, uids: Iterable[str]) -> None:
        """These machines are gone with their nodes and what was left on them."""
        gone = set(uids)
        names = {m.node_name for m in self.snapshot.machines if m.uid in gone and m.node_name}
        snapshot = self.snapshot
        self.snapshot = replace(
            snapshot,
            generation=snapshot.generation + 1,
            machines=tuple(m for m in snapshot.machines if m.uid not in gone),
            nodes=tuple(node for node in snapshot.nodes if node.name not in names),
            pods=tuple(pod for pod in snapshot.pods if pod.node_name not in names),
        )

    def update_conditions(self, nominated: set[str], now: float) -> None:
        """Empty, Expired and Consolidatable as the scheduler keeps them."""
        pools = {pool.key: pool for pool in self.snapshot.pools}
        occupied = occupied_nodes(self.snapshot.pods)
        changes = due(self.snapshot.machines, pools, occupied, nominated, now=now)
        by_uid: dict[str, dict[str, Condition]] = {}
        for one in changes:
            status = "True" if one.is_true else "False"
            by_uid.setdefault(one.machine.uid, {})[one.condition] = Condition(status, "", "", now)
        if by_uid:
            machines = (
                replace(m, conditions={**m.conditions, **by_uid[m.uid]}) if m.uid in by_uid else m
                for m in self.snapshot.machines
            )
            self.snapshot = replace(self.snapshot, machines=tuple(machines))

    def _touch(self, names: set[str], now: float) -> None:
        """Pods came to these nodes."""
        machines = (
            replace(m, last_pod_event_at=now) if m.node_name and m.node_name in names else m
            for m in self.snapshot.machines
        )
        self.snapshot = replace(self.snapshot, machines=tuple(machines))


def _bound(pod: Pod, node: str, now: float) -> Pod:
    return replace(
        pod, node_name=node, nominated_node="", unschedulable=False, phase="Running",
        started_at=now,
    )  # fmt: skip


def _waiting(pod: Pod) -> Pod:
    return replace(pod, node_name="", nominated_node="", phase="Pending", unschedulable=True)
