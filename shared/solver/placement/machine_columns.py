"""All open machines as arrays: free resources, number of pods, zone, and pods per host name of each topology rule.

Rows are machines in the order in which they were opened. The arrays only rule machines out; ``Admitter`` decides
whether a machine takes a pod. Resources are the first axis, so that comparing one resource reads contiguous memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import ge, sub

import numpy as np

from shared.domain import labels as keys
from shared.solver.encode import Amounts, Indices, Mask
from shared.solver.placement.machine_order import NOWHERE, MachineOrder
from shared.solver.placement.planned_machines import OpenMachine
from shared.solver.pod_classes import PodClass
from shared.solver.topology.counting import Check
from shared.solver.topology.groups import DomainLimit, Group

UNDECIDED = NOWHERE
_MOST_TRIED = 40
"""So many machines are tried in order; with more, comparing all at once takes less time."""
_FIRST_ROWS = 64
_NO_ROWS: Indices = np.empty(0, dtype=np.intp)


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
    not_above: dict[tuple[Group, int], tuple[Indices, int]] = field(default_factory=dict)
    """(group, most) -> rows of at most so many of its pods, ascending, and the number of rows looked at."""

    order: MachineOrder = field(default_factory=MachineOrder)
    rooms: list[list[int]] = field(default_factory=list)
    """[rows]: the columns of ``free``, for looking at one machine."""
    _zone_of: list[int] = field(default_factory=list)
    """``zone`` as a list, for looking at one machine."""
    _changed: set[int] = field(default_factory=set)
    """Rows whose ``free`` and ``pods`` are written before all rows are compared the next time."""
    closed: dict[PodClass, Mask] = field(default_factory=dict)
    """Class -> [rows or fewer]: machines that refuse it until the end of the plan."""

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
        self.order.append()
        self.rooms.append([])
        self._zone_of.append(UNDECIDED)
        self.size += 1

    def set_zone(self, index: int, machine: OpenMachine) -> None:
        """Updates the zone. To be called after the machine's requirements changed."""
        zone = machine.requirements.get(keys.ZONE)
        value = zone.single_value if zone is not None else None
        number = UNDECIDED if value is None else self.zones.setdefault(value, len(self.zones))
        self.zone[index] = self._zone_of[index] = number

    def set_content(self, index: int, machine: OpenMachine) -> None:
        """Updates free resources and number of pods. To be called after the machine took pods."""
        self.rooms[index] = list(map(sub, machine.types.largest, machine.content))
        self._changed.add(index)
        self.order.move(index, self._zone_of[index], len(machine.pods))

    def _write(self) -> None:
        if self._changed:
            rows = list(self._changed)
            self.free[:, rows] = np.array([self.rooms[row] for row in rows], dtype=np.int64).T
            self.pods[rows] = [self.order.pods[row] for row in rows]
            self._changed.clear()

    def count(self, index: int, machine: OpenMachine, group: Group) -> None:
        """Updates counts per host name. To be called after topology counted the machine's new pods in this group."""
        counts = self.by_host.get(group)
        if counts is not None:
            counts[index] = group.counts.get(machine.hostname, 0)

    def rule_out(self, index: int, pods: PodClass) -> None:
        """Excludes a machine for this class until the end of the plan."""
        closed = self.closed.get(pods)
        if closed is None or len(closed) <= index:
            closed = self._lengthened(pods, closed)
        closed[index] = True

    def _lengthened(self, pods: PodClass, closed: Mask | None) -> Mask:
        longer = self.closed[pods] = np.zeros(len(self.pods), dtype=np.bool_)
        if closed is not None:
            longer[: len(closed)] = closed
        return longer

    def allowed(
        self, pods: PodClass, checks: list[Check], machines: list[OpenMachine]
    ) -> Indices | None:
        """Machines that topology and earlier final refusals allow a class, size aside, ascending; None: all."""
        rows = self._within(checks, machines) if checks else None
        closed = self.closed.get(pods)
        if closed is None:
            return rows
        if len(closed) < self.size:
            closed = self._lengthened(pods, closed)
        if rows is None:
            return (~closed[: self.size]).nonzero()[0]
        return rows[~closed.take(rows)]

    def _within(self, checks: list[Check], machines: list[OpenMachine]) -> Indices | None:
        """Machines that topology does not refuse by host name or by pinned zone, ascending; None: every machine."""
        rows = elsewhere = None
        for group, selects_pod, pod_domains, per_host in checks:
            if per_host is not None:
                rows = self._on_hosts(per_host, machines, rows)
            elif group.rule.key == keys.HOSTNAME:
                bounds = group.bounds(selects_pod, pod_domains)
                rows = self._on_hosts(DomainLimit(group, *bounds), machines, rows)
            elif group.rule.key == keys.ZONE:
                bounds = group.bounds(selects_pod, pod_domains)
                elsewhere = self._in_zones(DomainLimit(group, *bounds), elsewhere)
        if elsewhere is None:
            return rows
        return elsewhere.nonzero()[0] if rows is None else rows[elsewhere.take(rows)]

    def _on_hosts(
        self, limit: DomainLimit, machines: list[OpenMachine], within: Indices | None
    ) -> Indices:
        group, least, most = limit
        counts = self._counts(group, machines)
        if within is None:
            within = self._not_above(group, most, counts)
            return within if least == 0 else within[counts.take(within) >= least]
        there = counts.take(within)
        return within[(there >= least) & (there <= most)]

    def _not_above(self, group: Group, most: int, counts: Amounts) -> Indices:
        """Counts never fall within a plan. Rows above ``most`` are left out for good, so that a rule under which all
        machines but a few are full does not look at all of them for each pod."""
        known, seen = self.not_above.get((group, most), (_NO_ROWS, 0))
        if 2 * (len(known) + self.size - seen) > self.size:
            rows: Indices = (counts[: self.size] <= most).nonzero()[0]
        else:
            rows = np.concatenate([known, np.arange(seen, self.size)])
            rows = rows[counts.take(rows) <= most]
        self.not_above[group, most] = rows, self.size
        return rows

    def _in_zones(self, limit: DomainLimit, within: Mask | None) -> Mask | None:
        group, least, most = limit
        for zone, number in self.zones.items():
            if not least <= group.counts.get(zone, 0) <= most:
                elsewhere = self.zone[: self.size] != number
                within = elsewhere if within is None else within & elsewhere
        return within

    def _counts(self, group: Group, machines: list[OpenMachine]) -> Amounts:
        found = self.by_host.get(group)
        if found is None:
            found = self.by_host[group] = np.zeros(len(self.pods), dtype=np.int64)
            found[: len(machines)] = [group.counts.get(machine.hostname, 0) for machine in machines]
        return found

    def first(self, pods: PodClass, checks: list[Check], machines: list[OpenMachine]) -> int | None:
        """The first of ``candidates``, if it is among the first in order; None: unknown.

        A shortcut that finds the machine for most pods without comparing all rows.
        """
        hosts, refused = self._limits(checks) if checks else ((), ())
        closed, rooms, request = self.closed.get(pods), self.rooms, pods.amounts
        known = 0 if closed is None else len(closed)
        for index in islice(self.order.outside(refused), _MOST_TRIED):
            if not all(map(ge, rooms[index], request)):
                continue
            if index < known and closed is not None and closed[index]:
                continue
            name = machines[index].hostname
            for counts, least, most in hosts:
                if not least <= counts.get(name, 0) <= most:
                    break
            else:
                return index
        return None

    def _limits(
        self, checks: list[Check]
    ) -> tuple[Sequence[tuple[dict[str, int], int, int]], Collection[int]]:
        """The counts by host of each check with its least and most, and the numbers of the zones that one refuses."""
        hosts: list[tuple[dict[str, int], int, int]] = []
        refused: list[int] = []
        for group, selects_pod, pod_domains, per_host in checks:
            if per_host is not None:
                hosts.append((group.counts, per_host.least, per_host.most))
                continue
            least, most = group.bounds(selects_pod, pod_domains)
            if group.rule.key == keys.HOSTNAME:
                hosts.append((group.counts, least, most))
            elif group.rule.key == keys.ZONE:
                held = group.counts.get
                for zone, number in self.zones.items():
                    if not least <= held(zone, 0) <= most:
                        refused.append(number)
        return hosts, refused

    def candidates(
        self, request: tuple[int, ...], allowed: Indices | None
    ) -> tuple[int, Iterator[int]]:
        """Machines that may have room: how many, and their rows, fewest pods first, then oldest.

        ``allowed``: rows, ascending; None: all. The first machine mostly takes the pod, so the others are sorted only
        when the iterator is read further.
        """
        self._write()
        found = self._with_room(request) if allowed is None else allowed
        if allowed is not None:
            for column, amount in enumerate(request):
                if amount > 0 and len(found):
                    found = found[self.free[column].take(found) >= amount]
        return len(found), self._by_pods(found)

    def _with_room(self, request: tuple[int, ...]) -> Indices:
        """Rows of all machines with room for a request."""
        n = self.size
        room: Mask | None = None
        for column, amount in enumerate(request):
            if amount > 0:
                enough = self.free[column, :n] >= amount
                room = enough if room is None else np.logical_and(room, enough, out=enough)
        return np.arange(n) if room is None else room.nonzero()[0]

    def _by_pods(self, found: Indices) -> Iterator[int]:
        if len(found):
            pods = self.pods[found]
            best = int(pods.argmin())
            yield int(found[best])
            for at in np.argsort(pods, kind="stable").tolist():
                if at != best:
                    yield int(found[at])
