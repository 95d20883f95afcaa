"""All open machines as arrays: free resources, number of pods, zone, and pods per host name of each topology rule.

Rows are machines in the order in which they were opened. The arrays only rule machines out; ``Admitter`` decides
whether a machine takes a pod. Resources are the first axis, so that comparing one resource reads contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import ge

import numpy as np

from shared.domain import labels as keys
from shared.solver.encode import Amounts, Indices, Mask
from shared.solver.placement.planned_machines import OpenMachine
from shared.solver.topology.groups import DomainLimit, Group

UNDECIDED = -1
_FIRST_ROWS = 64


@dataclass(slots=True)
class MachineColumns:
    """``free``: [resources, rows]."""

    free: Amounts
    """The largest amounts among each machine's types, minus what its pods use: a larger request rules it out."""
    pods: Amounts
    zone: Indices
    """Number of the zone that a machine is pinned to; UNDECIDED when it may be in several."""
    size: int = 0
    zones: dict[str, int] = field(default_factory=dict)
    by_host: dict[Group, Amounts] = field(default_factory=dict)
    """Group that counts by host name -> [rows]: its pods on each machine."""

    @classmethod
    def empty(cls, width: int) -> MachineColumns:
        zero = np.zeros((width, _FIRST_ROWS), dtype=np.int64)
        undecided = np.full(_FIRST_ROWS, UNDECIDED, dtype=np.intp)
        return cls(zero, np.zeros(_FIRST_ROWS, dtype=np.int64), undecided)

    @classmethod
    def of(cls, machines: list[OpenMachine], width: int) -> MachineColumns:
        """The arrays of machines that have pods already."""
        found = cls.empty(width)
        for index, machine in enumerate(machines):
            found.append()
            found.set_zone(index, machine)
            found.set_content(index, machine)
        return found

    def append(self) -> None:
        """Adds an empty row for one more machine."""
        if self.size == len(self.pods):
            self.free = np.concatenate([self.free, np.zeros_like(self.free)], axis=1)
            self.pods = np.concatenate([self.pods, np.zeros_like(self.pods)])
            self.zone = np.concatenate([self.zone, np.full_like(self.zone, UNDECIDED)])
            self.by_host = {
                group: np.concatenate([counts, np.zeros_like(counts)])
                for group, counts in self.by_host.items()
            }
        self.size += 1

    def set_zone(self, index: int, machine: OpenMachine) -> None:
        """Updates the zone. To be called after the machine's requirements changed."""
        zone = machine.requirements.get(keys.ZONE)
        value = zone.single_value if zone is not None else None
        number = UNDECIDED if value is None else self.zones.setdefault(value, len(self.zones))
        self.zone[index] = number

    def set_content(self, index: int, machine: OpenMachine) -> None:
        """Updates free resources and number of pods. To be called after the machine took pods."""
        self.free[:, index] = machine.types.largest_amounts - machine.used
        self.pods[index] = len(machine.pods)

    def count(self, index: int, machine: OpenMachine, groups: list[Group]) -> None:
        """Updates counts per host name. To be called after topology counted the machine's new pods in these groups."""
        for group in groups:
            counts = self.by_host.get(group)
            if counts is not None:
                counts[index] = group.counts.get(machine.hostname, 0)

    def within(self, limits: list[DomainLimit], machines: list[OpenMachine]) -> Mask | None:
        """Machines that topology does not refuse by host name or by pinned zone; None: every machine."""
        n, zones = self.size, self.zone[: self.size]
        allowed: Mask | None = None
        for group, least, most in limits:
            if group.rule.key == keys.HOSTNAME:
                counts = self._counts(group, machines)[:n]
                inside = counts <= most if least == 0 else (counts >= least) & (counts <= most)
                allowed = inside if allowed is None else allowed & inside
            elif group.rule.key == keys.ZONE:
                for zone, number in self.zones.items():
                    if not least <= group.counts.get(zone, 0) <= most:
                        elsewhere = zones != number
                        allowed = elsewhere if allowed is None else allowed & elsewhere
        return allowed

    def _counts(self, group: Group, machines: list[OpenMachine]) -> Amounts:
        found = self.by_host.get(group)
        if found is None:
            found = self.by_host[group] = np.zeros(len(self.pods), dtype=np.int64)
            found[: len(machines)] = [group.counts.get(machine.hostname, 0) for machine in machines]
        return found

    def emptiest(self, request: tuple[int, ...], allowed: Mask | None) -> int | None:
        """The allowed machine with the fewest pods, if it has room; None: use ``candidates``.

        A shortcut that finds the machine for most pods without comparing all rows.
        """
        if not self.size:
            return None
        if allowed is None:
            index = int(self.pods[: self.size].argmin())
        else:
            open_to = allowed.nonzero()[0]
            if not len(open_to):
                return None
            index = int(open_to[self.pods.take(open_to).argmin()])
        room = self.free[:, index].tolist()
        return index if all(map(ge, room, request)) else None

    def candidates(
        self, request: tuple[int, ...], allowed: Mask | None
    ) -> tuple[int, Iterator[int]]:
        """Machines that may have room: how many, and their rows, fewest pods first, then oldest.

        ``allowed``: one entry per machine; None: all. The first machine mostly takes the pod, so the others are sorted
        only when the iterator is read further.
        """
        n, room = self.size, allowed
        for column, amount in enumerate(request):
            if amount > 0:
                enough = self.free[column, :n] >= amount
                room = enough if room is None else np.logical_and(room, enough, out=enough)
        found = np.arange(n) if room is None else room.nonzero()[0]
        return len(found), self._by_pods(found)

    def _by_pods(self, found: Indices) -> Iterator[int]:
        if len(found):
            pods = self.pods[found]
            best = int(pods.argmin())
            yield int(found[best])
            for at in np.argsort(pods, kind="stable").tolist():
                if at != best:
                    yield int(found[at])
