"""Launches: one instance for one machine, within the limits of its pool, for machines of the present leader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from services.launcher.launch.fleet import uids_in
from shared.cloud.ec2.ownership import TOKEN_TAG, cluster_tag
from shared.domain import labels
from shared.domain.machines.commands import holder
from shared.domain.machines.machine import Machine
from shared.domain.nodes import provider_instance_id
from shared.domain.pools.usage import NODES, still_costs
from shared.kube.resources import LAUNCH_RECORDS, NODE_POOLS, PROVISIONERS
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.picture import MACHINE_KINDS, Change, Picture, record_of

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

RUNNING = frozenset({"pending", "running"})
LIVE = RUNNING | {"stopping", "stopped"}
ENDED = frozenset({"shutting-down", "terminated"})
ANSWER_SECONDS = 3.0
"""From EC2's answer to the write of the instance, beside the requests of the write: host names are waited for."""
STARTS = frozenset({"CreateFleet", "RunInstances"})
LONGEST_LAUNCH_SECONDS = 900.0
"""The same, for a launch whose record is not known."""
MEBIBYTE = 1024**2
LEAST_MEMORY_SHARE = 0.9
"""Of an instance's memory that counts: the hypervisor keeps less than a tenth, and limits count the rest."""
RESTORE_SECONDS = 60.0
"""After a restore of the API server a request that was decided before it may still arrive."""
EPOCH_TIE_SECONDS = 1.0
"""Timestamps of machines are whole seconds; in a tie a launch is allowed."""


def pool_of(instance: Any) -> str:
    """Key of the pool in the tags of an instance; empty without one."""
    if name := instance.tags.get(labels.NODE_POOL):
        return f"NodePool/{name}"
    name = instance.tags.get(labels.PROVISIONER_NAME)
    return f"Provisioner/{name}" if name else ""


def ours(world: World) -> list[Any]:
    """Every instance that this cluster launched, gone ones included, in the order of their launch."""
    tag = cluster_tag(world.emulator.settings.cluster_name)
    found = [one for one in world.emulator.inventory.all() if one.tags.get(tag) == "owned"]
    return [one for one in found if TOKEN_TAG in one.tags]


def alive(world: World) -> list[Any]:
    """Those of ``ours`` that cost money."""
    return [one for one in ours(world) if one.state in LIVE]


@dataclass
class Launches:
    """Which instances were started, by which record, for which machines. Shared by the invariants of this file."""

    picture: Picture
    uids: dict[str, frozenset[str]] = field(default_factory=dict)
    """Client token -> UIDs of the machines in its record, also when the record is gone."""
    written_at: dict[str, float] = field(default_factory=dict)
    """Client token -> when its record was written."""
    gone_at: dict[str, float] = field(default_factory=dict)
    """Client token -> when its record was deleted."""
    born_at: dict[str, float] = field(default_factory=dict)
    """UID of a machine -> when it was created."""
    replaces: dict[str, frozenset[str]] = field(default_factory=dict)
    """Key of a replacement -> keys of the machines that its command takes away."""
    fresh: list[Any] = field(default_factory=list)
    """The instances that the last event started."""
    _sequence: int = 0
    _followed: int = 0
    _change: Change | None = None

    def follow(self, event: Event, world: World) -> Change | None:
        """Take note of one event."""
        if event.number == self._followed:
            return self._change
        self._followed, self.fresh = event.number, []
        change = self._change = self.picture.follow(event, world)
        if event.kind == "aws" and event.fields.get("action") in STARTS:
            self._note_instances(world)
        if change is not None and change.resource is LAUNCH_RECORDS:
            self._note_record(change, event.at)
        if change is not None and change.key[0] in MACHINE_KINDS:
            self._note_machine(change, event.at)
        return change

    def _note_instances(self, world: World) -> None:
        for instance in reversed(world.emulator.inventory.all()):
            if instance.sequence <= self._sequence:
                break
            self.fresh.insert(0, instance)
        if self.fresh:
            self._sequence = self.fresh[-1].sequence

    def _note_record(self, change: Change, at: float) -> None:
        token = change.key[2]
        if change.after is None:
            self.gone_at[token] = at
        else:
            self.uids[token] = frozenset(uids_in(change.after))
            self.written_at.setdefault(token, at)

    def _note_machine(self, change: Change, at: float) -> None:
        if change.after is None:
            return
        self.born_at.setdefault(str(change.after["metadata"]["uid"]), at)
        machine = record_of(change.resource, change.after)
        command = None if machine is None else holder(machine)
        for key in command.replacements if command is not None else ():
            self.replaces[key] = frozenset(command.candidates) if command else frozenset()

    def wants(self, instance: Any) -> frozenset[str]:
        """UIDs of the machines that the call of this instance was for; empty when its record was never seen."""
        return self.uids.get(instance.tags.get(TOKEN_TAG, ""), frozenset())


@dataclass
class OneInstancePerMachine:
    """I1, F1, SVC-04: calls for one machine never have more live instances than machines, whatever was repeated."""

    launches: Launches
    name: str = "one instance per machine"
    kinds: tuple[str, ...] = ("api", "aws")

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when instances start."""
        self.launches.follow(event, world)
        if not self.launches.fresh:
            return []
        live = [one for one in alive(world) if self._counts(one, world)]
        found = []
        for fresh in self.launches.fresh:
            uids, mine = self._related(fresh, live)
            if uids and len(mine) > len(uids):
                names = ", ".join(sorted(one.instance_id for one in mine))
                found.append(f"{names} run for {len(uids)} machines")
        return found

    def _counts(self, instance: Any, world: World) -> bool:
        """An API server that forgot a launch cannot be asked about it; what is doubled then is garbage."""
        elapsed = world.clock.monotonic() - world.elapsed
        return bool(instance.launched_monotonic - elapsed > self.launches.picture.rolled_back_at)

    def _related(self, fresh: Any, live: list[Any]) -> tuple[set[str], list[Any]]:
        """All machines and live instances that share calls with this instance, also through others."""
        uids = set(self.launches.wants(fresh))
        mine: list[Any] = []
        while True:
            more = [
                one
                for one in live
                if one not in mine and not uids.isdisjoint(self.launches.wants(one))
            ]
            if not more:
                return uids, mine
            mine += more
            uids = uids.union(*(self.launches.wants(one) for one in more))


@dataclass
class IntentFirst:
    """F1, R4: an instance starts for a record that is stored, and a machine keeps the instance that it has."""

    launches: Launches
    name: str = "a launch is written down before it happens"
    kinds: tuple[str, ...] = ("api", "aws")

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when instances start, and when a machine gets one."""
        change = self.launches.follow(event, world)
        picture = self.launches.picture
        if event.at - picture.rolled_back_at < RESTORE_SECONDS:
            return []
        found = [
            f"{fresh.instance_id} was started by {fresh.tags[TOKEN_TAG]}, which is not written down"
            for fresh in self.launches.fresh
            if TOKEN_TAG in fresh.tags and fresh.tags[TOKEN_TAG] not in self.launches.uids
        ]
        if change is None or change.key[0] not in MACHINE_KINDS:
            return found
        before, after = (record_of(change.resource, one) for one in (change.before, change.after))
        if before is None or after is None or before.uid != after.uid:
            return found
        if before.provider_id not in ("", after.provider_id):
            found.append(f"{after.key} changed from {before.provider_id} to {after.provider_id}")
        return found


@dataclass
class LivingInstances:
    """F19, F20: a machine gets an instance that runs, and none that had ended when the launcher looked."""

    launches: Launches
    disturbances: Disturbances
    name: str = "a machine gets an instance that lives"
    kinds: tuple[str, ...] = ("api", "instance", "fault", "process")
    _ended_at: dict[str, float] = field(default_factory=dict)
    """Instance id -> when it began to end."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a machine gets its instance."""
        self.disturbances.note(event)
        change = self.launches.follow(event, world)
        if event.kind == "instance" and event.fields["state"] in ENDED:
            self._ended_at.setdefault(str(event.fields["id"]), event.at)
        if change is None or change.key[0] not in MACHINE_KINDS:
            return []
        before, after = (record_of(change.resource, one) for one in (change.before, change.after))
        if before is None or after is None or before.provider_id or not after.provider_id:
            return []
        if self.disturbances.lists_are_late(event.at):
            return []
        name = provider_instance_id(after.provider_id)
        seconds = event.at - self._ended_at.get(name, event.at)
        if seconds <= ANSWER_SECONDS + self.disturbances.cluster_read_seconds(event.at):
            return []
        return [f"{after.key} got {name}, which had ended {seconds:.1f} s before"]


@dataclass
class WithinLimits:
    """I4, BAT-08, SCH-100: no launch makes a pool exceed a limit that held when it was decided.

    Measured in CPUs, memory and number of EC2's instances and not in what machines say of themselves, at the moment of
    the call. As the limits are defined, what a command replaces does not count, nor does the largest terminating
    machine.
    """

    launches: Launches
    disturbances: Disturbances
    name: str = "launches stay within the limits of their pool"
    kinds: tuple[str, ...] = ("api", "aws", "fault", "process")
    _limits: dict[str, list[tuple[float, Mapping[str, int]]]] = field(default_factory=dict)
    """Pool key -> since when which limits held."""
    _restored_at: float = -inf

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when instances start."""
        self.disturbances.note(event)
        change = self.launches.follow(event, world)
        self._note_restored(event.at)
        if change is not None and change.resource in (NODE_POOLS, PROVISIONERS):
            self._note(change, event.at)
        found = []
        for pool_key in sorted({pool_of(one) for one in self.launches.fresh} - {""}):
            found += self._exceeded(pool_key, event.at, world)
        return found

    def _note(self, change: Change, at: float) -> None:
        pool = record_of(change.resource, change.after)
        key = f"{change.resource.kind}/{change.key[2]}"
        # Without its pool a machine has no limits: it goes with the pool.
        limits = pool.limits if pool is not None else {}
        self._limits.setdefault(key, []).append((at, limits))

    def _note_restored(self, at: float) -> None:
        """A restore of the API server changes limits too."""
        picture = self.launches.picture
        if picture.rolled_back_at > self._restored_at:
            self._restored_at = picture.rolled_back_at
            for pool in picture.pools():
                self._limits.setdefault(pool.key, []).append((at, pool.limits))

    def _exceeded(self, pool_key: str, at: float, world: World) -> list[str]:
        fresh = [one for one in self.launches.fresh if pool_of(one) == pool_key]
        decided = min(self._decided_at(one, at) for one in fresh)
        found = []
        for name in ("cpu", "memory", NODES):
            limit = self._limit(pool_key, name, decided)
            used = self._used(pool_key, name, fresh, world)
            if used > limit:
                found.append(f"{pool_key} uses {used} of at most {limit:g} {name} after a launch")
        return found

    def _decided_at(self, instance: Any, at: float) -> float:
        token = instance.tags.get(TOKEN_TAG, "")
        written = self.launches.written_at.get(token, at - LONGEST_LAUNCH_SECONDS)
        # The launcher reads the limits from the API server and writes the record in the same round (BAT-08).
        return written - self.disturbances.read_seconds(at)

    def _limit(self, pool_key: str, name: str, since: float) -> float:
        """The highest limit that held at any time since then; infinite where there was none."""
        history = self._limits.get(pool_key, [])
        begun = [index for index, (at, _) in enumerate(history) if at <= since]
        held = history[begun[-1] if begun else 0 :]
        return max((limits.get(name, inf) for _, limits in held), default=inf)

    def _used(self, pool_key: str, name: str, fresh: list[Any], world: World) -> int:
        machines = {
            provider_instance_id(one.provider_id): one
            for one in self.launches.picture.machines()
            if one.provider_id
        }
        used, largest = 0, 0
        replaced = self._replaced(fresh)
        for instance in alive(world):
            if pool_of(instance) != pool_key:
                continue
            machine = machines.get(instance.instance_id)
            if machine is None and not self._is_under_way(instance):
                continue  # Garbage: no machine pays for it.
            size = _size(instance, name)
            if machine is not None and machine.terminating:
                size = size if still_costs(machine) else 0
                used, largest = used + size, max(largest, size)
            elif machine is None or machine.key not in replaced:
                used += size
        return used - largest

    def _is_under_way(self, instance: Any) -> bool:
        token = instance.tags.get(TOKEN_TAG, "")
        return ("launchrecords", "", token) in self.launches.picture.documents["launchrecords"]

    def _replaced(self, fresh: list[Any]) -> frozenset[str]:
        """Keys of the machines that the commands of these launches take away."""
        uids = frozenset().union(*(self.launches.wants(one) for one in fresh))
        keys = [one.key for one in self.launches.picture.machines() if one.uid in uids]
        return frozenset().union(*(self.launches.replaces.get(key, ()) for key in keys))


def _size(instance: Any, name: str) -> int:
    if name == NODES:
        return 1
    if name == "cpu":
        return int(instance.facts.vcpus) * 1000
    return int(instance.facts.memory_mib * MEBIBYTE * LEAST_MEMORY_SHARE)


@dataclass
class FencedLaunches:
    """I9, F14: no instance for a machine that an older scheduler made after a newer one began to make machines."""

    launches: Launches
    name: str = "only the present scheduler's machines are launched"
    kinds: tuple[str, ...] = ("api", "aws")

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when instances start."""
        self.launches.follow(event, world)
        found = []
        machines = self.launches.picture.machines() if self.launches.fresh else []
        for instance in self.launches.fresh:
            token = instance.tags.get(TOKEN_TAG, "")
            written = self.launches.written_at.get(token, -inf)
            for machine in machines:
                if machine.uid in self.launches.wants(instance):
                    newer = self._newer(machine, machines, written)
                    if newer is not None:
                        found.append(
                            f"{instance.instance_id} was launched for {machine.key} of epoch {epoch_of(machine)}, "
                            f"although {newer.key} of epoch {epoch_of(newer)} existed before it"
                        )
        return found

    def _newer(self, machine: Machine, machines: list[Machine], written: float) -> Machine | None:
        """A machine of a newer epoch that was older when the record was written, so that the launcher could see it."""
        born = self.launches.born_at.get(machine.uid, -inf)
        for other in machines:
            at = self.launches.born_at.get(other.uid, inf)
            if (
                epoch_of(other) > epoch_of(machine)
                and at + EPOCH_TIE_SECONDS < born
                and at < written
            ):
                return other
        return None


def epoch_of(machine: Machine) -> int:
    """The scheduler's epoch in which the machine was made; 0 without one."""
    text = machine.annotations.get(labels.EPOCH_ANNOTATION, "")
    return int(text) if text.isdigit() else 0
