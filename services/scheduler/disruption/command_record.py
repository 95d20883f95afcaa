"""What a disruption command needs next, from its record and from what became of its machines: pure.

Every candidate carries the whole record as an annotation, written before anything else is done. What a command has come
to follows from the record and from what became of its machines, so any scheduler can go on with it after a crash, and
no machine can be in two commands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from shared.disruption.records import Command
from shared.domain.machines.commands import CommandRecord, holder
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.solver.output import machine_name

LEAST_WAIT_SECONDS, MOST_WAIT_SECONDS = 600.0, 3600.0
WAIT_PER_CANDIDATE_SECONDS = 0.08
"""EXE-05: how long replacements may take, by the number of machines that are being disrupted."""


class Written(NamedTuple):
    """What we wrote last of a command. ``over``: it is carried out, or rolled back."""

    record: CommandRecord
    over: bool = False


Next = Literal["wait", "delete", "roll back", "over"]


class Step(msgspec.Struct, frozen=True):
    """What a command needs now, and why."""

    next: Next
    why: str = ""


def running(machines: Iterable[Machine]) -> dict[str, CommandRecord]:
    """By id, every command that still holds a machine. Of two versions the further one counts."""
    found: dict[str, CommandRecord] = {}
    for machine in machines:
        record = None if machine.terminating else holder(machine)
        if record is not None:
            known = found.get(record.id)
            if known is None or record.created:
                found[record.id] = record
    return found


class Shown:
    """The commands that machines show. Machines change seldom, and this is asked often."""

    def __init__(self) -> None:
        self._machines: Sequence[Machine] = ()
        self._found: Mapping[str, CommandRecord] = {}

    def by(self, machines: Sequence[Machine]) -> Mapping[str, CommandRecord]:
        """As ``running``. ``machines``: the same object while they are the same."""
        if self._machines is not machines:
            self._machines, self._found = machines, running(machines)
        return self._found


def is_shown(written: Written, record: CommandRecord | None, alive: Set[str]) -> bool:
    """Whether the mirror shows what we wrote last: ``record`` is what it has of the command, ``alive`` are the keys of
    the machines that stay."""
    if written.over:
        return record is None
    if record is not None:
        return record.created >= written.record.created
    return alive.isdisjoint(written.record.candidates)


def step(
    record: CommandRecord,
    machines: Mapping[str, Machine],
    *,
    now: float,
    disrupted: int,
    ours: bool,
) -> Step:
    """What to do now (EXE-04..06). ``machines`` by key; ``disrupted``: candidates of all running commands; ``ours``:
    this process began it a moment ago.

    A command is begun in one go. One that is found half begun was cut off there, and nobody knows how long ago: it is
    rolled back: to decide anew costs little.
    """
    held = [m for key in record.candidates if (m := machines.get(key)) and not m.terminating]
    if not held:
        return Step("over")
    age = now - record.begun_at
    begun = record.created if record.replacements else ours
    if not begun:
        return Step("roll back", "whoever began it did not get to the end of that")
    lost = [key for key in record.replacements if key not in machines or machines[key].terminating]
    if lost:
        return Step("roll back", f"replacement {lost[0]} is gone")
    if all(machines[key].has(INITIALIZED) for key in record.replacements):
        return Step("delete")
    if age > patience(disrupted):
        return Step("roll back", f"replacements were not ready after {age:.0f} s")
    return Step("wait")


def patience(disrupted: int) -> float:
    """Seconds that replacements may take (EXE-05)."""
    scaled = WAIT_PER_CANDIDATE_SECONDS * disrupted
    return min(MOST_WAIT_SECONDS, max(LEAST_WAIT_SECONDS, scaled))


def start_id(command: Command, now: float) -> str:
    """Of this start: the same decision taken twice makes two commands, and the outcome of one says nothing of the
    other."""
    return hashlib.sha256(f"{command.id}|{now}".encode()).hexdigest()[:16]


def with_names_of_its_own(command: Command, id_: str) -> Command:
    """A plan names machines after what it is about, so the simulation's replacement may well be called what the machine
    is called that it replaces: planned for the same pods once. A retried command must not meet its own leftovers."""
    renamed = (
        replace(planned, name=machine_name(planned.pool, id_, index))
        for index, planned in enumerate(command.replacements)
    )
    return replace(command, replacements=tuple(renamed))
