"""Deletions: nothing is destroyed without a proof, and nothing healthy as garbage."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from shared.cloud.ec2.ownership import TOKEN_TAG
from shared.concurrency.clock import LARGEST_SKEW_SECONDS, parse_rfc3339
from shared.domain import labels
from shared.domain.machines.commands import holder
from shared.domain.machines.machine import INITIALIZED, REGISTERED, Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pools.hours import is_open
from shared.kube.resources import NODES
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.launches import RESTORE_SECONDS, RUNNING, Launches
from simulation.invariants.picture import MACHINE_KINDS, Change, Json, record_of

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

VISIBLE_SECONDS = 120.0
"""EC2 need not list a new instance for so long."""
GRACE_SECONDS = 60.0
"""GARBAGE_GRACE: an instance must be without an owner in two observations so far apart."""
SETTLED_SECONDS = 30.0
"""A node that has been Ready for so long was Ready when its deletion was decided."""
SKEW_SECONDS = 2.0
"""Between the services' whole-second timestamps and the true time."""


@dataclass
class ProvenTerminations:
    """R7, F23, TRM-01: an instance is ended only for a deleted machine or node, or when nobody owned it for the grace.

    The orders are taken from EC2's record of calls, so it does not matter which service gave them.
    """

    launches: Launches
    name: str = "an instance is ended only with proof"
    kinds: tuple[str, ...] = ("api", "aws")
    _unowned_since: dict[str, float] = field(default_factory=dict)
    """Instance id -> when the last machine that named it was removed."""
    _going: set[str] = field(default_factory=set)
    """Ids of instances whose machine or node was being deleted at any time."""
    _owned: set[str] = field(default_factory=set)
    """Ids of instances that machines name; a restore removes none."""
    _forgotten_at: dict[str, float] = field(default_factory=dict)
    """Id of an instance -> when a restore forgot its machine, which did not come back."""
    _restored_at: float = -inf
    _ended: set[str] = field(default_factory=set)
    """Ids of instances that a service ended before. To order that again, when the answer was lost, changes nothing."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when TerminateInstances was called."""
        change = self.launches.follow(event, world)
        if self.launches.picture.rolled_back_at > self._restored_at:
            self._restored_at = self.launches.picture.rolled_back_at
            self._note_forgotten(self._restored_at)
        if change is not None and _has_instance(change):
            self._note(change, event.at)
        called = ended_by_services(event, world)
        ended = [one for one in called if one.instance_id not in self._ended]
        self._ended.update(one.instance_id for one in ended)
        if event.at - self._restored_at < RESTORE_SECONDS:
            return [why for one in ended if (why := self._why_not_yet(one, event.at))]
        return [why for instance in ended if (why := self._why_not(instance, event.at))]

    def _note(self, change: Change, at: float) -> None:
        record = record_of(change.resource, change.after or change.before)
        name = "" if record is None else provider_instance_id(record.provider_id)
        if change.begins_deletion:
            self._going.add(name)
        if not isinstance(record, Machine) or not name:
            return
        if change.after is None:
            self._unowned_since[name] = at
            self._owned.discard(name)
        else:
            self._owned.add(name)
            self._forgotten_at.pop(name, None)

    def _note_forgotten(self, at: float) -> None:
        machines = self.launches.picture.machines()
        named = {provider_instance_id(one.provider_id) for one in machines}
        kept = {name: since for name, since in self._forgotten_at.items() if name not in named}
        self._forgotten_at = dict.fromkeys(self._owned - named, at) | kept

    def _why_not_yet(self, instance: Any, at: float) -> str:
        """Why the instance should not have been ended so soon after a restore of the API server."""
        picture, name = self.launches.picture, instance.instance_id
        if name in self._going or name not in self._owned or picture.machine_of(name) is not None:
            return ""  # It was ordered before the restore.
        token = instance.tags.get(TOKEN_TAG, "")
        if ("launchrecords", "", token) in picture.documents["launchrecords"]:
            return ""
        since = at - self._forgotten_at.get(name, at)
        if since >= GRACE_SECONDS:
            return ""
        return f"{name} was ended {since:.1f} s after a restore forgot its machine, at once"

    def _why_not(self, instance: Any, at: float) -> str:
        """Why the instance should not have been ended; empty when it was right."""
        picture, name = self.launches.picture, instance.instance_id
        machine = picture.machine_of(name)
        if machine is not None:
            return "" if machine.terminating else f"{name} was ended although {machine.key} stays"
        nodes = [one for one in picture.nodes() if provider_instance_id(one.provider_id) == name]
        if any(node.terminating and labels.FINALIZER in node.finalizers for node in nodes):
            return ""
        token = instance.tags.get(TOKEN_TAG, "")
        if ("launchrecords", "", token) in picture.documents["launchrecords"]:
            wanted = self.launches.wants(instance)
            waiting = [
                m.key
                for m in picture.machines()
                if m.uid in wanted and not m.terminating and not m.provider_id
            ]
            return f"{name} was ended although {waiting[0]} waits for it" if waiting else ""
        unowned = max(
            self._unowned_since.get(name, -inf),
            self.launches.gone_at.get(token, -inf),
        )
        if unowned + GRACE_SECONDS > at:
            return f"{name} was ended {at - unowned:.1f} s after it lost its owner, at once"
        return ""


@dataclass
class ProvenDeletions:
    """R7, F20, F24, LCH-80, TRM-02: no service deletes a machine that is healthy, except the scheduler by a decision,
    and none as garbage whose instance is too new for EC2's lists, unless its node was removed and did not come back."""

    launches: Launches
    name: str = "a healthy machine is deleted only by a decision"
    kinds: tuple[str, ...] = ("api",)
    _removed_at: dict[str, float] = field(default_factory=dict)
    """Provider id of a node that was removed -> when."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when the deletion of a machine is ordered."""
        change = self.launches.follow(event, world)
        if change is not None and change.resource is NODES:
            self._note_node(change, event.at)
        if change is None or change.key[0] not in MACHINE_KINDS or not change.begins_deletion:
            return []
        machine = record_of(change.resource, change.before)
        if machine is None:
            return []
        removed = event.at - self._removed_at.get(machine.provider_id, inf) >= GRACE_SECONDS
        if change.by == "launcher" and not removed and self._is_new(machine, world):
            return [f"{machine.key} was deleted as garbage although its instance is new and runs"]
        if not machine.has(INITIALIZED):
            return []
        if change.by == "launcher" and self._is_healthy(machine, world):
            return [
                f"{machine.key} was deleted as garbage although its node is ready and its instance runs"
            ]
        # A terminator that saw the deleted node just before a restore cannot know of it.
        since_restore = event.at - self.launches.picture.rolled_back_at
        if change.by == "terminator" and since_restore >= RESTORE_SECONDS:
            node = self.launches.picture.node_of(machine.provider_id)
            if node is not None and not node.terminating:
                return [f"{machine.key} was deleted although its node {node.name} stays"]
        return []

    def _note_node(self, change: Change, at: float) -> None:
        node: Node | None = record_of(NODES, change.after or change.before)
        if node is not None and change.after is None:
            self._removed_at[node.provider_id] = at
        elif node is not None:
            self._removed_at.pop(node.provider_id, None)

    def _is_new(self, machine: Machine, world: World) -> bool:
        """Whether its instance runs and started so short a time ago that EC2 need not list it."""
        instance = world.emulator.inventory.get(provider_instance_id(machine.provider_id))
        if instance is None or instance.state not in RUNNING or machine.has(REGISTERED):
            return False
        return bool(world.clock.now() - instance.launched_at < VISIBLE_SECONDS - SKEW_SECONDS)

    def _is_healthy(self, machine: Machine, world: World) -> bool:
        instance = world.emulator.inventory.get(provider_instance_id(machine.provider_id))
        if instance is None or instance.state != "running":
            return False
        now = world.clock.now()
        return any(
            _is_ready_since(raw, now - SETTLED_SECONDS)
            for raw in self.launches.picture.raw(NODES)
            if (raw.get("spec") or {}).get("providerID") == machine.provider_id
        )


def _is_ready_since(raw: Json, since: float) -> bool:
    if raw["metadata"].get("deletionTimestamp"):
        return False
    for condition in (raw.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            changed = condition.get("lastTransitionTime")
            return bool(changed) and parse_rfc3339(str(changed)) <= since
    return False


@dataclass
class ReleasedLast:
    """I3, TRM-02, TRM-14: the terminator takes its finalizer off a machine or node when the instance has ended, and
    off one without an instance when no launch for it is under way."""

    launches: Launches
    disturbances: Disturbances
    name: str = "machines and nodes outlive their instance"
    kinds: tuple[str, ...] = ("api", "fault", "process")

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when the finalizer is removed."""
        self.disturbances.note(event)
        change = self.launches.follow(event, world)
        if change is None or change.by != "terminator" or not _has_instance(change):
            return []
        if not _has_finalizer(change.before) or _has_finalizer(change.after):
            return []
        record = record_of(change.resource, change.before)
        name = "" if record is None else provider_instance_id(record.provider_id)
        if record is not None and not name and isinstance(record, Machine):
            return self._under_way(record, event.at)
        instance = world.emulator.inventory.get(name)
        if instance is None or instance.state == "terminated":
            return []
        return [
            f"{change.resource.kind}/{change.key[2]} was released while {name} was {instance.state}"
        ]

    def _under_way(self, machine: Machine, at: float) -> list[str]:
        seen = at - self.disturbances.cluster_read_seconds(at)
        return [
            f"{machine.key} was released while launch record {key[2]} was open for it"
            for key in self.launches.picture.documents["launchrecords"]
            if machine.uid in self.launches.uids.get(key[2], ())
            and self.launches.written_at.get(key[2], at) < seen
        ]


def _has_instance(change: Change) -> bool:
    """Whether it is about a machine or a node."""
    return change.key[0] in MACHINE_KINDS or change.resource is NODES


def _has_finalizer(document: Json | None) -> bool:
    return document is not None and labels.FINALIZER in (
        document["metadata"].get("finalizers") or []
    )


CLOSED_SECONDS = 5.0
"""A pool that was closed so long ago may have opened after the decision."""


@dataclass
class ReplacedFirst:
    """EXE-04, EXE-06, SVC-06: the scheduler deletes a machine for a stored command, after its replacements are ready.

    A NodeClaim whose time is up needs neither (DIS-60), nor does one of a closed pool, nor one more than a static pool
    wants, and a machine that never was initialized may go.
    """

    launches: Launches
    name: str = "replacements are ready before machines go"
    kinds: tuple[str, ...] = ("api",)
    _ready: set[str] = field(default_factory=set)
    """Keys of machines that were initialized at any time."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when the scheduler deletes a machine."""
        change = self.launches.follow(event, world)
        if change is None or change.key[0] not in MACHINE_KINDS:
            return []
        after = record_of(change.resource, change.after)
        if after is not None and after.has(INITIALIZED):
            self._ready.add(after.key)
        before = record_of(change.resource, change.before)
        if before is None or change.by != "scheduler" or not change.begins_deletion:
            return []
        return self._faults(before, world) if before.has(INITIALIZED) else []

    def _faults(self, machine: Machine, world: World) -> list[str]:
        if is_expired(machine, world) or self._is_over(machine, world):
            return []
        command = holder(machine)
        if command is None:
            return [f"{machine.key} was deleted without a command"]
        missing = [key for key in command.replacements if key not in self._ready]
        if missing:
            return [f"{machine.key} was deleted before {', '.join(missing)} was ready"]
        return []

    def _is_over(self, machine: Machine, world: World) -> bool:
        """Whether its pool is closed, or static and has too many."""
        pools = (one for one in self.launches.picture.pools() if one.key == machine.pool_key)
        if (pool := next(pools, None)) is None:
            return False
        if pool.replicas is not None:
            left = [m for m in self.launches.picture.machines() if m.pool_key == pool.key]
            return sum(not one.terminating for one in left) >= pool.replicas
        now, ahead = world.clock.now(), skew_of("scheduler", world)
        times = (now - CLOSED_SECONDS, now, now + min(ahead, LARGEST_SKEW_SECONDS) + SKEW_SECONDS)
        return pool.drains_when_closed and not all(is_open(pool, now=time) for time in times)


def is_expired(machine: Machine, world: World) -> bool:
    """By a clock of the scheduler that is not so wrong that it shows."""
    if machine.expire_seconds is None or machine.api.replaces_expired:
        return False
    ahead = min(skew_of("scheduler", world), LARGEST_SKEW_SECONDS) + SKEW_SECONDS
    return world.clock.now() + ahead >= machine.created_at + machine.expire_seconds


def skew_of(service: str, world: World) -> float:
    """How far the clock of a replica of this service is ahead at most, in seconds."""
    replicas = [one for name, one in world.processes.items() if name.startswith(f"{service}-")]
    return max((one.owner.skew_seconds for one in replicas), default=0.0)


def ended_by_services(event: Event, world: World) -> list[Any]:
    """The instances that this event's call of a service ended."""
    if event.kind != "aws" or event.fields.get("action") != "TerminateInstances":
        return []
    call = world.emulator.recorder.latest
    if call is None or call.action != "TerminateInstances":
        return []
    named = (call.parameters.get("InstanceIds") or {}) if call.parameters else {}
    ids = list(named) if not isinstance(named, dict) else list(named.values())
    found = (world.emulator.inventory.get(str(name)) for name in ids)
    return [one for one in found if one is not None and one.state == "shutting-down"]
