"""What is true when nothing happens any more: machines, instances and nodes match, and deletions have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.domain import labels
from shared.domain.machines.commands import holder
from shared.domain.machines.machine import DRIFTED, INITIALIZED, REGISTERED, Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pools.nodepools import EMPTY, NodePool
from shared.domain.pools.usage import NODES
from shared.domain.workloads.pods import Pod
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
    LAUNCH_RECORDS,
    NODE_POOLS,
    PDBS,
    PROVISIONERS,
)
from simulation.invariants.disruption import least
from simulation.invariants.evictions import deadline_of, is_held, must_leave
from simulation.invariants.launches import LIVE, alive, ours, pool_of
from simulation.invariants.picture import Picture
from simulation.invariants.pods import has_usable_class

if TYPE_CHECKING:
    from simulation.world import World

JUDGED_TERMINATIONS = ("Node/", "Machine/", "NodeClaim/")
"""How the names of open terminations begin that are of objects of the cluster."""
HELD_LEAST, HELD_SHARE = 5, 0.2
"""More than so many of a pool, and than this share of it, are held back when they are to end within ten minutes."""


@dataclass
class NothingLeaked:
    """I1, I2, F19, LCH-81: each live instance belongs to one machine, each launched machine to one live instance."""

    picture: Picture
    name: str = "instances and machines belong together"

    def check(self, world: World) -> list[str]:
        """Instances without a machine, machines without an instance, and instances with several machines."""
        self.picture.refresh(world)
        live = {one.instance_id for one in alive(world)}
        machines = [m for m in self.picture.machines() if m.provider_id]
        named = Counter(provider_instance_id(machine.provider_id) for machine in machines)
        orphans = live - named.keys()
        held = held_back(named.keys(), world)
        found = [f"{name} runs without a machine" for name in sorted(orphans - held)]
        found += [f"{count} machines name {name}" for name, count in named.items() if count > 1]
        found += [
            f"{machine.key} names {machine.provider_id}, which does not run"
            for machine in machines
            if provider_instance_id(machine.provider_id) not in live
        ]
        return found


def held_back(claimed: Set[str], world: World) -> set[str]:
    """Instances without a machine that may stay until a person decides, as a launcher says that it holds them (F23).
    ``claimed``: all instances that machines name.

    It may do so where so many of a pool at once look like a wrong list, counted with those that have ended already: a
    run is not much longer than the ten minutes in which they count. And where there is no machine at all.
    """
    launchers = (one for name, one in world.processes.items() if name.startswith("launcher-"))
    if not any("instances" in str(one.status().get("deletionsHeld", "")) for one in launchers):
        return set()
    if not claimed:
        return {one.instance_id for one in ours(world)}
    pools: dict[str, list[Any]] = {}
    for one in ours(world):
        pools.setdefault(pool_of(one), []).append(one)
    found: set[str] = set()
    for instances in pools.values():
        running = {one.instance_id for one in instances if one.state in LIVE}
        lost = len(instances) - len(running) + len(running - claimed)
        if lost > max(HELD_LEAST, int(len(running) * HELD_SHARE)):
            found |= running - claimed
    return found


@dataclass
class NodesHaveMachines:
    """F24, TRM-02, LCH-73: each node of a pool has its machine, and each registered machine has its node."""

    picture: Picture
    name: str = "nodes and machines belong together"

    def check(self, world: World) -> list[str]:
        """Nodes without a machine, and registered machines without a node."""
        self.picture.refresh(world)
        nodes = [node for node in self.picture.nodes() if node.is_managed]
        machines = {m.provider_id: m for m in self.picture.machines() if m.provider_id}
        held = {node.provider_id for node in nodes}
        alone = {
            provider_instance_id(node.provider_id): node
            for node in nodes
            if node.provider_id not in machines
        }
        kept = held_back({provider_instance_id(name) for name in machines}, world)
        found = [
            f"node {node.name} has no machine"
            for instance, node in alone.items()
            if instance not in kept
        ]
        return found + [
            f"{machine.key} is registered and has no node"
            for provider_id, machine in machines.items()
            if machine.has(REGISTERED) and provider_id not in held
        ]


@dataclass
class MachinesAreReady:
    """LCH-75, LCH-76, F25: each launched machine is initialized, and one whose node does not join goes."""

    picture: Picture
    name: str = "launched machines become ready or go"

    def check(self, world: World) -> list[str]:
        """Launched machines that are not initialized."""
        return [
            f"{machine.key} is launched and not initialized"
            for machine in self.picture.refresh(world).machines()
            if machine.provider_id and not machine.has(INITIALIZED) and not machine.terminating
        ]


@dataclass
class NodesAreOpen:
    """DIS-02, EXE-05: a node that no command holds and nobody deletes is open for pods.

    Only of nodes that are closed by our own taint: a cordon may be a person's.
    """

    picture: Picture
    name: str = "nodes that stay are open"

    def check(self, world: World) -> list[str]:
        """Closed nodes that nothing keeps closed."""
        self.picture.refresh(world)
        leaving = {
            m.provider_id for m in self.picture.machines() if m.terminating or holder(m) is not None
        }
        return [
            f"node {node.name} is closed although it stays"
            for node in self.picture.nodes()
            if node.is_managed
            and not node.terminating
            and node.provider_id not in leaving
            and any(taint.key == labels.DISRUPTED_TAINT_KEY for taint in node.taints)
        ]


@dataclass
class RecordsEnd:
    """F1, I12: at the end no launch record is left of a launch that is over."""

    picture: Picture
    name: str = "launch records end"

    def check(self, world: World) -> list[str]:
        """Records whose machines all have their instance or are gone."""
        self.picture.refresh(world)
        waiting = {
            m.uid for m in self.picture.machines() if not m.terminating and not m.provider_id
        }
        return [
            f"launch record {raw['metadata']['name']} is left of a launch that is over"
            for raw in self.picture.raw(LAUNCH_RECORDS)
            if waiting.isdisjoint(str(one.get("uid")) for one in raw["spec"]["machines"])
        ]


@dataclass
class DeletionsEnd:
    """I3, F22, F26, TRM-01: every deletion ends, unless a person's wish holds a pod on the node."""

    picture: Picture
    name: str = "deletions end"

    def check(self, world: World) -> list[str]:
        """Objects with our finalizers whose deletion was ordered and nothing holds."""
        self.picture.refresh(world)
        nodes = {node.provider_id: node for node in self.picture.nodes()}
        machines = self.picture.machines()
        found = []
        for machine in machines:
            if machine.terminating and not self._is_held(
                nodes.get(machine.provider_id), machine, world
            ):
                found.append(f"{machine.key} is still being deleted")
        owners = {machine.provider_id: machine for machine in machines}
        for node in nodes.values():
            owner = owners.get(node.provider_id)
            ours = labels.FINALIZER in node.finalizers
            if node.terminating and ours and not self._is_held(node, owner, world):
                found.append(f"node {node.name} is still being deleted")
        return found + self._pools_and_classes(machines)

    def _is_held(self, node: Node | None, machine: Machine | None, world: World) -> bool:
        """Whether a pod may stay on this node for as long as a person wants."""
        deadline = deadline_of(machine, world)
        if node is None or deadline is not None:
            return False
        budgets, now = self.picture.raw(PDBS), world.clock.now()
        here = [pod for pod in self.picture.pods() if pod.node_name == node.name]
        leaving = [pod for pod in here if must_leave(pod, node, now)]
        return any(is_held(pod, budgets, pod.labels) for pod in leaving)

    def _pools_and_classes(self, machines: list[Machine]) -> list[str]:
        used = {machine.pool_key for machine in machines}
        used |= {machine.node_class_key for machine in machines}
        kinds = (NODE_POOLS, PROVISIONERS, EC2_NODE_CLASSES, AWS_NODE_TEMPLATES)
        return [
            f"{kind.kind}/{raw['metadata']['name']} is still being deleted"
            for kind in kinds
            for raw in self.picture.raw(kind)
            if raw["metadata"].get("deletionTimestamp")
            and f"{kind.kind}/{raw['metadata']['name']}" not in used
        ]


@dataclass
class TerminationsEnd:
    """I12, TRM-01: at the end the terminator says of nothing that it works on it but of what is being deleted."""

    picture: Picture
    name: str = "terminations end"

    def check(self, world: World) -> list[str]:
        """Open terminations of machines and nodes that are gone or stay."""
        self.picture.refresh(world)
        going = {machine.key for machine in self.picture.machines() if machine.terminating}
        going |= {f"Node/{node.name}" for node in self.picture.nodes() if node.terminating}
        return [
            f"{name} still works on {key}"
            for name, process in world.processes.items()
            if name.startswith("terminator-")
            for key in _names(process.status().get("open"))
            if key.startswith(JUDGED_TERMINATIONS) and key not in going
        ]


def _names(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


@dataclass
class NoticesAreSettled:
    """INT-01: at the end no message is left in the queue of notices: each that was handled is deleted."""

    name: str = "every notice is settled"

    def check(self, world: World) -> list[str]:
        """Messages that wait or were received and not deleted."""
        left = world.aws.messages(world.emulator.settings.cluster_name)
        return [f"{left} messages are left in the queue"] if left else []


@dataclass
class EmptyMachinesGo:
    """DIS-30 to DIS-34, ACC-28: at the end no machine is left without pods whose pool says that such machines go."""

    picture: Picture
    name: str = "machines that nobody needs go"

    def check(self, world: World) -> list[str]:
        """Machines without pods that nothing keeps."""
        self.picture.refresh(world)
        pools = {pool.key: pool for pool in self.picture.pools()}
        nodes = {node.provider_id: node for node in self.picture.nodes()}
        pods = _by_node(self.picture.pods())
        machines = [m for m in self.picture.machines() if m.has(INITIALIZED)]
        totals = Counter(machine.pool_key for machine in machines)
        # One that a person's pods keep from leaving uses up the budget of its pool for as long.
        leaving = Counter(machine.pool_key for machine in machines if machine.terminating)
        found = []
        for machine in machines:
            pool, node = pools.get(machine.pool_key), nodes.get(machine.provider_id)
            if pool is None or node is None or machine.terminating:
                continue
            allowed = least(pool.budgets, EMPTY, totals[pool.key], world.clock.now())
            if allowed > leaving[pool.key] and _goes(pool, node, pods.get(node.name, [])):
                found.append(f"{machine.key} is left without pods")
        return found


@dataclass
class StaticPoolsAreFull:
    """GAT-01: at the end each static pool has as many machines as it says, or as its limit of nodes allows. A limit
    that came later makes nothing go."""

    picture: Picture
    name: str = "static pools have their replicas"

    def check(self, world: World) -> list[str]:
        """Static pools with more machines than they say, or with fewer although nothing keeps them from it."""
        self.picture.refresh(world)
        machines = self.picture.machines()
        counted = Counter(one.pool_key for one in machines if not one.terminating)
        # They count for the limit until they are gone (SCH-101), which pods may hold up.
        leaving = Counter(one.pool_key for one in machines if one.terminating)
        found = []
        for pool in self.picture.pools():
            if pool.replicas is None or pool.terminating:
                continue
            room = pool.limits.get(NODES, pool.replicas + leaving[pool.key]) - leaving[pool.key]
            least = min(pool.replicas, max(0, room)) if has_usable_class(pool, self.picture) else 0
            if not least <= counted[pool.key] <= pool.replicas:
                found.append(f"{pool.key} has {counted[pool.key]} of {pool.replicas} machines")
        return found


@dataclass
class ReservedAreReserved:
    """LCH-84: at the end a machine is labelled as reserved only while its instance is in a reservation."""

    picture: Picture
    name: str = "reserved machines are in a reservation"

    def check(self, world: World) -> list[str]:
        """Machines that are labelled as reserved whose reservation has ended."""
        self.picture.refresh(world)
        rows = world.emulator.reservations.described({}, world.clock.now())
        active = {row["CapacityReservationId"] for row in rows if row["State"] == "active"}
        held = {one.instance_id for one in alive(world) if one.capacity_reservation_id in active}
        return [
            f"{machine.key} is labelled as reserved, and its instance is in no reservation"
            for machine in self.picture.machines()
            if machine.capacity_type == labels.RESERVED
            and not machine.terminating
            and provider_instance_id(machine.provider_id) not in held
        ]


def waiting_for_their_turn(machines: Iterable[Machine], now: float) -> set[str]:
    """Names of machines that are replaced one after the other, as the budgets of their pools allow. One that may last
    until its deadline (TRM-10) has another name than before its turn. ``now``: seconds since the epoch."""
    found = {one.key: one for one in machines}
    waiting = {key for key, one in found.items() if one.has(DRIFTED) and not one.terminating}
    lasting = (
        key for key, one in found.items() if one.terminating and (one.terminate_at or 0) > now
    )
    return waiting | {f"{key} until its deadline" for key in lasting}


def _by_node(pods: list[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(pod.node_name, []).append(pod)
    return found


def _goes(pool: NodePool, node: Node, pods: list[Pod]) -> bool:
    """Whether a machine of this pool with these pods is one that goes."""
    kept: Any = node.annotations.get(labels.DO_NOT_DISRUPT) or node.annotations.get(
        labels.DO_NOT_CONSOLIDATE
    )
    if kept or pool.disruption_off or pool.is_static or pool.consolidate_after_seconds is None:
        return False
    if any(pod.do_not_disrupt for pod in pods):
        return False
    return all(pod.is_terminal or pod.is_daemon or pod.is_mirror for pod in pods)
