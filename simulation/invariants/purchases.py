"""Purchases: machines are made for pods that need a place, and never twice for the same pods.

The plan of a purchase is not looked at. What the machines under way keep for pods is compared with what pods ask for:
more CPUs or memory than these ask for were bought for pods that are gone, or for pods that have a machine already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from shared.api.core.pods import parse_daemon_set
from shared.domain import labels
from shared.domain.machines.commands import holder
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.pools.hours import is_open
from shared.domain.pools.kept_capacity import keeps_capacity
from shared.domain.pools.nodepools import NodePool
from shared.domain.workloads.pods import ENDED, Pod
from shared.kube.resources import (
    CAPACITY_BUFFERS,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    PODS,
    PROVISIONERS,
)
from simulation.invariants.deletions import SKEW_SECONDS, skew_of
from simulation.invariants.disruption import decision_seconds, held
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.launches import RESTORE_SECONDS, Launches
from simulation.invariants.picture import MACHINE_KINDS, Change, Json, Picture, record_of

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

JUDGED = ("cpu", "memory")
POOL_KINDS = (NODE_POOLS, PROVISIONERS)
ROOM_KINDS = (CAPACITY_BUFFERS, *POOL_KINDS, MACHINES, NODE_CLAIMS)
"""When one of these changes, it is looked whether somebody keeps room."""
ORDERED_AGAIN_SECONDS = 5.0
"""An order so soon after a withdrawal is for pods that waited all the time."""
ROOM_SECONDS = 120.0
"""So long a machine that was bought for kept room may still start."""
MOST_TURNS = 5
TURNS_SECONDS = 300.0


@dataclass
class Demand:
    """Which pods needed a place, and until when."""

    picture: Picture
    _until: dict[str, tuple[float, Pod]] = field(default_factory=dict)
    """UID -> when a pod that needs no place any more needed one last, and that pod."""

    def note(self, change: Change, at: float) -> None:
        """Take note of a pod that may need no place any more: it is bound, finished or gone."""
        if change.before is None or _state(change.before) == _state(change.after):
            return
        before = record_of(PODS, change.before)
        if before is not None and self._needs(before, self._leaving()):
            self._until[before.uid] = at, before

    def since(self, begin: float) -> list[Pod]:
        """The pods that needed a place at any time since ``begin``."""
        leaving = self._leaving()
        found = {uid: pod for uid, (at, pod) in self._until.items() if at >= begin}
        found |= {pod.uid: pod for pod in self.picture.pods() if self._needs(pod, leaving)}
        return list(found.values())

    def _leaving(self) -> set[str]:
        """Nodes whose pods may need another place."""
        machines = [m for m in self.picture.machines() if m.terminating or holder(m) is not None]
        gone = {node.name for node in self.picture.nodes() if node.terminating}
        return gone | {machine.node_name for machine in machines}

    def _needs(self, pod: Pod, leaving: set[str]) -> bool:
        if pod.is_terminal or pod.is_daemon or pod.is_mirror:
            return False
        return not pod.node_name or pod.node_name in leaving


def _state(pod: Json | None) -> tuple[str, bool] | None:
    """Node and whether it is finished, from the document: most writes change neither, and reading a pod takes long."""
    if pod is None:
        return None
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return spec.get("nodeName") or "", status.get("phase") in ENDED


@dataclass
class BoughtOnce:
    """BAT-05, SCH-01, I1: machines under way offer no more than the pods ask for that needed a place meanwhile.

    Judged for the new machine alone, and together with those that were made before it and are not ready yet. Machines
    that replace others, and those of static pools, are made for another reason. A machine whose node somebody deleted
    or cordoned takes no pods any more, also before the terminator has seen it. While somebody keeps room for pods to
    come, and as long after as its machines start, purchases are not judged: they are for pods that nobody sees.
    """

    launches: Launches
    disturbances: Disturbances
    name: str = "machines are bought once, and for pods that need one"
    kinds: tuple[str, ...] = ("api", "fault", "process")
    demand: Demand = field(init=False)
    _room_until: float = -inf
    """When somebody last kept room."""

    def __post_init__(self) -> None:
        self.demand = Demand(self.launches.picture)

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when the scheduler makes a machine."""
        self.disturbances.note(event)
        change = self.launches.follow(event, world)
        if change is None:
            return []
        if change.resource is PODS:
            self.demand.note(change, event.at)
        if change.resource in ROOM_KINDS or self.launches.picture.raw(CAPACITY_BUFFERS):
            self._note_room(change, event.at)
        if change.key[0] not in MACHINE_KINDS or not change.is_new or change.by != "scheduler":
            return []
        machine = record_of(change.resource, change.after)
        if machine is None or not self._is_for_pods(machine):
            return []
        if event.at - self.launches.picture.rolled_back_at < RESTORE_SECONDS:
            return []
        if event.at - self._room_until < ROOM_SECONDS:
            return []
        return self._surplus(machine, event.at, world)

    def _note_room(self, change: Change, at: float) -> None:
        picture = self.launches.picture
        was = record_of(change.resource, change.before) if change.resource in POOL_KINDS else None
        keeps = any(map(keeps_capacity, picture.pools())) or (was and keeps_capacity(was))
        if keeps or picture.raw(CAPACITY_BUFFERS) or change.resource is CAPACITY_BUFFERS:
            self._room_until = at

    def _is_for_pods(self, machine: Machine) -> bool:
        pool = next((p for p in self.launches.picture.pools() if p.key == machine.pool_key), None)
        usable = pool is not None and not pool.terminating and not pool.is_static
        return usable and machine.key not in self.launches.replaces

    def _surplus(self, machine: Machine, at: float, world: World) -> list[str]:
        nodes = self.launches.picture.nodes()
        # By the instance: a machine does not know the name of its node before that registers.
        closed = {node.provider_id for node in nodes if node.terminating or node.unschedulable}
        under_way = [
            one
            for one in self.launches.picture.machines()
            if not one.terminating
            and not (one.provider_id and one.provider_id in closed)
            and not one.has(INITIALIZED)
            and labels.PLAN_ANNOTATION in one.annotations
            and self._is_for_pods(one)
        ]
        reads = self.disturbances.read_seconds(at)
        daemons = self._daemons(world)
        for begin in sorted({self._born(one, at) for one in under_way}, reverse=True):
            bought = [one for one in under_way if self._born(one, at) >= begin]
            pods = self.demand.since(begin - reads)
            for name in JUDGED:
                offered = sum(one.requests.get(name, 0) - daemons.get(name, 0) for one in bought)
                asked = sum(pod.requests.get(name, 0) for pod in pods)
                if offered > asked:
                    return [_sentence(machine, bought, name, offered, asked)]
        return []

    def _born(self, machine: Machine, at: float) -> float:
        return self.launches.born_at.get(machine.uid, at)

    def _daemons(self, world: World) -> dict[str, int]:
        """What the pods of all DaemonSets ask for: a machine keeps room for those that may run on it."""
        found = dict.fromkeys(JUDGED, 0)
        for raw in world.store.list("daemonsets", group="apps"):
            requests = parse_daemon_set(raw).requests
            for name in JUDGED:
                found[name] += requests.get(name, 0)
        return found


@dataclass
class WantedByPools:
    """GAT-01, SCH-101: a static pool gets no more machines than it says, and a closed pool none.

    Of machines in commands nobody knows yet whether they stay, and what replaces them is made for the command.
    """

    launches: Launches
    disturbances: Disturbances
    name: str = "pools get no machines that they do not want"
    kinds: tuple[str, ...] = ("api", "fault", "process")
    _known: dict[str, list[tuple[float, NodePool]]] = field(default_factory=dict)
    """Key -> the pool as it was, since when."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when the scheduler makes a machine."""
        self.disturbances.note(event)
        change = self.launches.follow(event, world)
        if change is None:
            return []
        if change.key[0] not in MACHINE_KINDS and change.resource not in POOL_KINDS:
            return []
        record = record_of(change.resource, change.after)
        if isinstance(record, NodePool):
            self._known.setdefault(record.key, []).append((event.at, record))
        if not isinstance(record, Machine) or not change.is_new or change.by != "scheduler":
            return []
        if record.key in self.launches.replaces or self._is_restored(event.at):
            return []
        seconds = decision_seconds(self.disturbances, event.at)
        pools = [one for _, one in held(self._known.get(record.pool_key, []), event.at - seconds)]
        return self._unwanted(record, pools, seconds, world) if pools else []

    def _is_restored(self, at: float) -> bool:
        return at - self.launches.picture.rolled_back_at < RESTORE_SECONDS

    def _unwanted(
        self, machine: Machine, pools: list[NodePool], seconds: float, world: World
    ) -> list[str]:
        # By the scheduler's clock, however wrong: only deletions wait for a right one.
        clocks = (world.clock.now(), world.clock.now() + skew_of("scheduler", world))
        steps = range(int(seconds + SKEW_SECONDS) + 1)
        times = [now - seconds + step for now in clocks for step in steps]
        if not any(is_open(pool, now=time) for pool in pools for time in times):
            return [f"{machine.key} was made although its pool is closed"]
        wanted = max((inf if one.replicas is None else one.replicas) for one in pools)
        mine = [m for m in self.launches.picture.machines() if m.pool_key == machine.pool_key]
        found = sum(
            not one.terminating and holder(one) is None and one.key not in self.launches.replaces
            for one in mine
        )
        return (
            [f"{machine.key} is one of {found}, its pool wants {wanted}"] if found > wanted else []
        )


@dataclass
class OrderedToStay:
    """BAT-08: what is ordered is wanted. A scheduler that withdraws machines before their launch, only to order others
    in their pool at once, neither launches nor lets go, and each turn costs writes, events and time.

    A turn or two are sound: the pods of one machine go as other pods come.
    """

    launches: Launches
    name: str = "machines are not ordered and withdrawn again and again"
    kinds: tuple[str, ...] = ("api", "fault", "process")
    _withdrawn_at: dict[str, float] = field(default_factory=dict)
    """Pool -> when one of its machines was withdrawn; taken out by the order that follows."""
    _turns: dict[str, deque[float]] = field(default_factory=dict)
    """Pool -> when a withdrawal was followed by an order, the last ones."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when the scheduler makes a machine."""
        change = self.launches.follow(event, world)
        if change is None or change.by != "scheduler" or change.key[0] not in MACHINE_KINDS:
            return []
        machine = record_of(change.resource, change.after or change.before or {})
        if machine is None:
            return []
        if change.begins_deletion and not machine.provider_id:
            self._withdrawn_at[machine.pool_key] = event.at
            return []
        return self._turn(machine.pool_key, event.at) if change.is_new else []

    def _turn(self, pool: str, at: float) -> list[str]:
        if at - self._withdrawn_at.pop(pool, -inf) > ORDERED_AGAIN_SECONDS:
            return []
        turns = self._turns.setdefault(pool, deque(maxlen=MOST_TURNS + 1))
        turns.append(at)
        if len(turns) <= MOST_TURNS or at - turns[0] > TURNS_SECONDS:
            return []
        return [
            f"{pool}: {len(turns)} times in {at - turns[0]:.0f} s a machine was withdrawn and another ordered"
        ]


def _sentence(
    machine: Machine, bought: Iterable[Machine], name: str, offered: int, asked: int
) -> str:
    others = ", ".join(sorted(one.key for one in bought if one.key != machine.key))
    along = f" beside {others}" if others else ""
    return f"{machine.key} was made{along}: {offered} {name} for pods that ask for {asked}"
