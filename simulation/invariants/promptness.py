"""Promptness: without faults work begins at once, by a message, and does not wait for the next listing.

Listings repair what messages lose, so a lost message shows in nothing but the delay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from shared.domain import labels
from shared.domain.machines.machine import LAUNCHED, REGISTERED, Machine
from shared.kube.resources import LAUNCH_RECORDS
from simulation.invariants.disturbances import (
    LONGEST_FAULT_SECONDS,
    PROMPT_FAULTS,
    SLOW_READ_SECONDS,
    Disturbances,
)
from simulation.invariants.launches import Launches, alive
from simulation.invariants.picture import FOLLOWED, MACHINE_KINDS, Json, Key, record_of

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

PROMPT_SECONDS = 8.0
"""A listing comes every 15 s."""
REPEAT_SECONDS = 8.0
"""A call is repeated after 2 s, and a little later by chance."""
MOST_CALLS, CALLS_SECONDS = 3, 60.0
"""Calls for one machine within so long; the next one waits."""
LOST_ANSWER = "aws-lost-answer"
"""Kind of the fault."""
NOTICE_SECONDS = 120.0
"""From EC2's announcement of the end of a spot instance to the end."""
NOTICE_CALM_SECONDS = 90.0
"""So long after a fault a notice is handled that could not be handled before: a poll that was lost takes 40 s, the
pause after it up to 30 s, and a message that was received by a lost answer comes again after 20 s."""
LOOK_SECONDS = 5.0
SPOT_END = "Server.SpotInstanceTermination"


@dataclass
class Promptness:
    """R1, R2, SVC-04, F1: a new machine is launched, and a deleted one drained, as soon as its message arrives; a
    record goes with the end of its launch. Garbage collection would find each of them, minutes later.
    """

    launches: Launches
    disturbances: Disturbances
    name: str = "work begins at once"
    kinds: tuple[str, ...] = ("api", "fault", "process")
    _launching: dict[Key, float] = field(default_factory=dict)
    """Machines without a record -> when they were created."""
    _ending: dict[Key, float] = field(default_factory=dict)
    """Deleted machines whose node is not deleted yet -> when their deletion was ordered."""
    _launched: dict[Key, float] = field(default_factory=dict)
    """Machines -> when they got their instance."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when time has passed."""
        self.disturbances.note(event)
        change = self.launches.follow(event, world)
        if change is not None and change.key[0] in MACHINE_KINDS:
            if change.is_new and change.by == "scheduler":
                self._launching[change.key] = event.at
            if change.begins_deletion and change.after is not None:
                self._ending[change.key] = event.at
            if _instance_of(change.after) and not _instance_of(change.before):
                self._launched[change.key] = event.at
        if not self.disturbances.is_calm(event.at):
            self._launching.clear()
            self._ending.clear()
            self._launched.clear()
            return []
        return [
            *self._late_launches(event.at),
            *self._late_drains(event.at),
            *self._late_records(event.at),
        ]

    def _late_launches(self, at: float) -> list[str]:
        found = []
        for key in _due(self._launching, at):
            machine = self._machine(key)
            if (
                machine is not None
                and _waits_for_launch(machine)
                and not self._is_recorded(machine)
            ):
                found.append(f"{machine.key} was not launched within {PROMPT_SECONDS:g} s")
        return found

    def _late_drains(self, at: float) -> list[str]:
        found = []
        for key in _due(self._ending, at):
            machine = self._machine(key)
            if machine is None or not machine.provider_id or not machine.has(REGISTERED):
                continue
            node = self.launches.picture.node_of(machine.provider_id)
            if node is not None and labels.FINALIZER in node.finalizers and not node.terminating:
                found.append(
                    f"the drain of {machine.key} did not begin within {PROMPT_SECONDS:g} s"
                )
        return found

    def _late_records(self, at: float) -> list[str]:
        open_ = [key[2] for key in self.launches.picture.documents[LAUNCH_RECORDS.plural]]
        waiting = {m.uid for m in self.launches.picture.machines() if not m.provider_id}
        found = []
        for machine in filter(None, map(self._machine, _due(self._launched, at))):
            for token in open_:
                uids = self.launches.uids.get(token, frozenset())
                if machine.uid in uids and waiting.isdisjoint(uids):
                    found.append(
                        f"the launch record {token} is left of the launch of {machine.key}"
                    )
        return found

    def _machine(self, key: Key) -> Machine | None:
        document = self.launches.picture.documents[key[0]].get(key)
        found: Machine | None = record_of(FOLLOWED[key[0]], document)
        return found

    def _is_recorded(self, machine: Machine) -> bool:
        records = self.launches.picture.documents[LAUNCH_RECORDS.plural]
        tokens = [key[2] for key in records]
        return any(machine.uid in self.launches.uids.get(token, ()) for token in tokens)


@dataclass
class RepeatedSoon:
    """F1, F17, F30: a call whose answer was lost is repeated a moment later, by the message that was put off.

    A listing would find it too, up to 15 s later.
    """

    launches: Launches
    disturbances: Disturbances
    name: str = "a call without an answer is repeated soon"
    kinds: tuple[str, ...] = ("api", "aws", "fault", "process")
    _last: dict[str, float] = field(default_factory=dict)
    """Client token of an open record -> when it was sent last."""
    _calls: dict[str, list[float]] = field(default_factory=dict)
    """UID of a machine -> the times of its calls."""
    _disturbed_at: float = -inf

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when time has passed since the first call of a record that is still open."""
        self.disturbances.note(event)
        self.launches.follow(event, world)
        if self._is_disturbed(event):
            self._disturbed_at = event.at
        if (
            event.kind == "process"
            or event.at - self._disturbed_at < LONGEST_FAULT_SECONDS + SLOW_READ_SECONDS
        ):
            self._last.clear()
            return []
        if event.kind == "aws" and event.fields.get("action") == "CreateFleet":
            self._note(str(_parameters(world).get("ClientToken") or ""), event.at)
        open_ = {key[2] for key in self.launches.picture.documents[LAUNCH_RECORDS.plural]}
        found = []
        for token, last in list(self._last.items()):
            if token not in open_:
                del self._last[token]
            elif event.at - last > REPEAT_SECONDS:
                del self._last[token]
                found += self._waiting(token, last)
        return found

    def _note(self, token: str, at: float) -> None:
        self._last[token] = at
        for uid in self.launches.uids.get(token, ()):
            self._calls.setdefault(uid, []).append(at)

    def _is_disturbed(self, event: Event) -> bool:
        """By anything but lost answers."""
        kind = event.fields.get("fault")
        return event.kind == "fault" and kind not in PROMPT_FAULTS and kind != LOST_ANSWER

    def _waiting(self, token: str, last: float) -> list[str]:
        uids = self.launches.uids.get(token, frozenset())
        if any(self._is_used_up(uid, last) for uid in uids):
            return []
        return [
            f"the call for {machine.key} was not repeated within {REPEAT_SECONDS:g} s"
            for machine in self.launches.picture.machines()
            if machine.uid in uids and not machine.provider_id and not machine.terminating
        ]

    def _is_used_up(self, uid: str, last: float) -> bool:
        """Whether the machine had so many calls within a minute that it has to wait."""
        recent = [at for at in self._calls.get(uid, ()) if at > last - CALLS_SECONDS]
        return len(recent) >= MOST_CALLS


def _parameters(world: World) -> Json:
    call = world.emulator.recorder.latest
    return (call.parameters or {}) if call is not None else {}


def _instance_of(document: Json | None) -> str:
    return str(((document or {}).get("status") or {}).get("providerID") or "")


def _due(since: dict[Key, float], at: float) -> list[Key]:
    """The keys whose time is up, which are forgotten."""
    due = [key for key, begun in since.items() if at - begun > PROMPT_SECONDS]
    for key in due:
        del since[key]
    return due


def _waits_for_launch(machine: Machine) -> bool:
    """Whether the machine has neither an instance nor a reason to wait, in its conditions."""
    if machine.provider_id or machine.terminating:
        return False
    known = machine.conditions.get(LAUNCHED)
    return known is None or known.reason in ("", "AwaitingReconciliation", "Unknown")


@dataclass
class NoticesAreHeeded:
    """INT-10, F21: a machine is being deleted when half of the time is over after which EC2 ends its spot instance, and
    when EC2 ends it.
    """

    launches: Launches
    disturbances: Disturbances
    name: str = "announced ends are acted on"
    kinds: tuple[str, ...] = ("instance", "api", "aws", "fault", "process")
    _next: float = 0.0

    def check(self, event: Event, world: World) -> list[str]:
        """Judged every few seconds, and when EC2 ends a spot instance."""
        self.disturbances.note(event)
        self.launches.follow(event, world)
        if event.at - self.disturbances.notice_at < NOTICE_CALM_SECONDS:
            return []
        if event.kind == "instance" and event.fields.get("state") == "shutting-down":
            return self._not_deleted(event, world)
        if event.at < self._next:
            return []
        self._next = event.at + LOOK_SECONDS
        return self._unheeded(world)

    def _not_deleted(self, event: Event, world: World) -> list[str]:
        name = str(event.fields["id"])
        instance = world.emulator.inventory.get(name)
        if instance is None or (instance.state_reason or ("",))[0] != SPOT_END:
            return []
        machine = self.launches.picture.machine_of(name)
        known = None if machine is None else machine.conditions.get(REGISTERED)
        if machine is None or machine.terminating or known is None or known.status != "True":
            return []
        if world.clock.now() - known.since < NOTICE_SECONDS:
            return []  # It may have been announced before there was a node.
        return [f"EC2 ended {name}, and {machine.key} was not deleted although that was announced"]

    def _unheeded(self, world: World) -> list[str]:
        """Machines that stay although the end of their instance is near and was announced when they had a node."""
        found, now = [], world.clock.now()
        for instance in alive(world):
            ends_at = world.emulator.notices.of(instance.instance_id).ends_at
            if ends_at is None or now < ends_at - NOTICE_SECONDS / 2:
                continue
            machine = self.launches.picture.machine_of(instance.instance_id)
            if machine is None or machine.terminating or not machine.has(REGISTERED):
                continue
            if machine.conditions[REGISTERED].since < ends_at - NOTICE_SECONDS:
                found.append(f"{machine.key} stays although EC2 ends {instance.instance_id} soon")
        return found
