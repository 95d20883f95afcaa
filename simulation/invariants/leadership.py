"""Leaders: one at a time. It writes nothing after it was followed, decides nothing by an old picture of the cluster,
and carries out no command that its predecessor had not begun to the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from shared.domain.machines.commands import CommandRecord, holder
from shared.domain.machines.machine import Machine
from shared.kube.lease import read_record
from shared.kube.resources import LEASES
from shared.redis.streams import CLUSTER
from simulation.invariants.deletions import is_expired
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.launches import epoch_of
from simulation.invariants.leases import ELECTED
from simulation.invariants.picture import MACHINE_KINDS, Change, Picture, record_of

if TYPE_CHECKING:
    from simulation.processes import SimulatedProcess
    from simulation.trace import Event
    from simulation.world import World

LOOK_SECONDS = 1.0
MIRROR_SECONDS = 60.0
"""The longest time for which a mirror that nobody writes is believed."""
DECISION_SECONDS = 5.0
"""From the look at the mirror's age to the writes that were decided then, beside the requests of these writes."""


@dataclass
class OneLeader:
    """I9, F14: of the replicas of a service one at most says that it leads, and a process that was stopped for longer
    than its Lease knows at once that it does not."""

    name: str = "one replica leads"
    kinds: tuple[str, ...] = ("process", "api", "redis")
    _next: float = 0.0

    def check(self, event: Event, world: World) -> list[str]:
        """Judged every second, and when a process continues."""
        if event.at < self._next and event.fields.get("what") != "continue":
            return []
        self._next = event.at + LOOK_SECONDS
        running: dict[str, list[str]] = {}
        for name, process in world.processes.items():
            if process.alive and not process.owner.paused:
                running.setdefault(name.rpartition("-")[0], []).append(name)
        found = []
        for service in ELECTED:
            names = running.get(service.removeprefix("-"), [])
            # One replica alone is not asked: what a service says of itself takes it a while.
            leading = [one for one in names if len(names) > 1 and _leads(world.processes[one])]
            found += [f"{', '.join(leading)} lead at once"] if len(leading) > 1 else []
        return found


def _leads(process: SimulatedProcess) -> bool:
    return bool(process.status().get("leading"))


@dataclass
class PresentLeaderWrites:
    """I9, F14: a scheduler that another one has followed makes no machine."""

    picture: Picture
    disturbances: Disturbances
    name: str = "only the present scheduler makes machines"
    kinds: tuple[str, ...] = ("api", "fault", "process")
    _epochs: list[tuple[float, int]] = field(default_factory=list)
    """When which epoch of the scheduler's Lease began."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when the scheduler makes a machine."""
        self.disturbances.note(event)
        change = self.picture.follow(event, world)
        if self._epochs and self.picture.rolled_back_at >= self._epochs[-1][0]:
            self._epochs.clear()  # The Lease went back too.
        if change is None:
            return []
        if change.resource is LEASES and change.key[2].endswith(ELECTED[1]):
            self._note(change, event.at)
        if change.key[0] not in MACHINE_KINDS or not change.is_new or change.by != "scheduler":
            return []
        machine = record_of(change.resource, change.after)
        return [] if machine is None else self._late(machine, event.at)

    def _note(self, change: Change, at: float) -> None:
        if change.after is None:
            self._epochs.clear()
            return
        epoch = read_record(dict(change.after)).epoch
        if not self._epochs or self._epochs[-1][1] < epoch:
            self._epochs.append((at, epoch))

    def _late(self, machine: Machine, at: float) -> list[str]:
        seconds = self.disturbances.cluster_read_seconds(at)
        epoch = max((number for begun, number in self._epochs if at - begun > seconds), default=0)
        if epoch <= epoch_of(machine):
            return []
        return [
            f"{machine.key} was made in epoch {epoch_of(machine)}, although epoch {epoch} had begun"
        ]


@dataclass
class WholeCommands:
    """EXE-04: a command that was cut off before all of it was written is rolled back by the next scheduler."""

    picture: Picture
    disturbances: Disturbances
    name: str = "commands that were cut off are rolled back"
    kinds: tuple[str, ...] = ("api", "fault", "process")
    _begun_at: dict[str, float] = field(default_factory=dict)
    """Command -> when its record was first written."""
    _started_at: dict[str, float] = field(default_factory=dict)
    """Scheduler -> when it was started last."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when the scheduler deletes a machine."""
        self.disturbances.note(event)
        change = self.picture.follow(event, world)
        name = str(event.fields.get("name"))
        if event.kind == "process" and event.fields.get("what") == "start":
            if name.startswith("scheduler-"):
                self._started_at[name] = event.at
            return []
        if change is None or change.key[0] not in MACHINE_KINDS:
            return []
        before, after = (record_of(change.resource, one) for one in (change.before, change.after))
        if after is not None and (command := holder(after)) is not None:
            self._begun_at.setdefault(command.id, event.at)
        if before is None or change.by != "scheduler" or not change.begins_deletion:
            return []
        if is_expired(before, world) or (command := holder(before)) is None:
            return []
        return self._cut_off(before, command, event.at)

    def _cut_off(self, machine: Machine, command: CommandRecord, at: float) -> list[str]:
        if command.created:
            return []
        begun = self._begun_at.get(command.id, inf)
        first = min(self._started_at.values(), default=-inf)
        # A request of the scheduler that was killed may still be on its way.
        if begun >= first or at - first <= self.disturbances.cluster_read_seconds(at):
            return []
        return [f"{machine.key} was deleted for a command of a scheduler that was cut off"]


@dataclass
class FreshMirror:
    """OPS-13, R5: nothing is bought or disrupted by a mirror that nobody has written for a minute."""

    picture: Picture
    disturbances: Disturbances
    name: str = "nothing is decided with an old mirror"
    kinds: tuple[str, ...] = ("api", "redis", "fault", "process")
    _written_at: float = inf
    """When something was last written on the stream of the mirror; its heartbeat is, too."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when the scheduler makes a machine or holds one for a command."""
        if event.kind == "redis":
            if event.fields["stream"] == CLUSTER and event.fields["command"] == "xadd":
                self._written_at = event.at
            return []
        self.disturbances.note(event)
        change = self.picture.follow(event, world)
        if change is None or change.key[0] not in MACHINE_KINDS or change.by != "scheduler":
            return []
        if not change.is_new and not _is_held_now(change):
            return []
        age = event.at - self._written_at
        if age <= MIRROR_SECONDS + DECISION_SECONDS + self.disturbances.read_seconds(event.at):
            return []
        what = "made" if change.is_new else "taken for a command"
        return [
            f"{change.resource.kind}/{change.key[2]} was {what} with a mirror of {age:.0f} s ago"
        ]


def _is_held_now(change: Change) -> bool:
    before, after = (record_of(change.resource, one) for one in (change.before, change.after))
    if before is None or after is None or holder(after) is None:
        return False
    return holder(before) is None
