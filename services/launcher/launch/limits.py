"""Limits of pools and of the cluster: is there room for one more machine? Pure (BAT-08, I4, I10).

A machine whose call is written down but not answered counts with the largest type that it may become, for EC2 chooses.
So the limits hold whatever EC2 answers; a machine that is refused for too large a guess is launched a moment later.
Machines on their way out count as ``shared.domain.pools.usage`` says; a replacement has the room of what it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from services.launcher.launch.fleet import LaunchRecord, overrides_of
from services.launcher.launch_template.variants import Choice
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.commands import holder
from shared.domain.machines.machine import LAUNCHED, Machine
from shared.domain.pools.usage import NODES, USUAL, Counting, replacing, still_costs, usage
from shared.domain.resources import Resources, add, format_resources

MINUTE_SECONDS = 60.0


class ReservedRoom(msgspec.Struct, frozen=True):
    """Room that is kept for a machine which has no instance yet. ``capacity``: the most that it may become."""

    pool_key: str
    capacity: dict[str, int]


@dataclass(frozen=True)
class SafetyLimits:
    """Limits of the whole cluster; 0: no limit."""

    max_nodes: int = 0
    launches_per_minute: int = 0


class PoolLimits:
    """Usage of each pool now. ``admit`` adds to it."""

    def __init__(
        self,
        machines: Iterable[Machine],
        reserved: Mapping[str, ReservedRoom],
        *,
        now: float,
        counting: Counting = USUAL,
    ) -> None:
        """``reserved``: by uid; of those that are launched meanwhile the machine counts."""
        launched = [machine for machine in machines if machine.provider_id]
        self._nodes = len(launched)
        self._recent = sum(_since(machine) > now - MINUTE_SECONDS for machine in launched)
        self._used: dict[str, dict[str, int]] = {}
        self._let_off: dict[str, dict[str, int]] = {}
        """By pool: what a machine that replaces no other need not count."""
        for pool_key, mine in _by_pool(launched).items():
            self._used[pool_key] = usage(mine, replacing(counting))
            self._let_off[pool_key] = _less(self._used[pool_key], usage(mine, counting))
        self._replaced = _replaced(launched, counting)
        known = {machine.uid for machine in launched}
        for uid, one in reserved.items():
            if uid not in known:
                self._take(one)

    def refusal(self, limits: SafetyLimits) -> str:
        """Why no machine at all may be launched now, in words; empty when one may."""
        if limits.max_nodes and self._nodes >= limits.max_nodes:
            return f"the safety limit MAX_NODES of {limits.max_nodes} instances is reached"
        if limits.launches_per_minute and self._recent >= limits.launches_per_minute:
            return (
                f"the safety limit LAUNCHES_PER_MINUTE of {limits.launches_per_minute} is reached"
            )
        return ""

    def within(
        self, machine: Machine, limits: Mapping[str, int], choices: Iterable[Choice]
    ) -> list[Choice]:
        """The choices that keep the machine's pool within its limits (BAT-08)."""
        used = self._used_for(machine)
        room = {name: most - used.get(name, 0) for name, most in limits.items()}
        return [
            choice
            for choice in choices
            if all(_amount(choice.type.capacity, name) <= left for name, left in room.items())
        ]

    def exceeded(self, machine: Machine, limits: Mapping[str, int]) -> str:
        """A sentence that says how far each limit is used up."""
        most, now = format_resources(dict(limits)), self._used_for(machine)
        used = format_resources({name: now.get(name, 0) for name in limits})
        parts = (f"{name} {used[name]} of {most[name]}" for name in sorted(limits))
        return (
            f"{machine.pool_key} has no room for another machine within its limits: "
            f"{', '.join(parts)}, nodes that are still draining included"
        )

    def _used_for(self, machine: Machine) -> dict[str, int]:
        """Usage of the machine's pool, without what this machine replaces."""
        used = self._used.get(machine.pool_key, {})
        mine = self._replaced.get((machine.pool_key, machine.key))
        return _less(used, self._let_off.get(machine.pool_key, {}) if mine is None else mine)

    def admit(self, pool_key: str, choices: Iterable[Choice]) -> ReservedRoom:
        """Reserve room for the largest of these choices."""
        kept = ReservedRoom(pool_key, largest(choice.type.capacity for choice in choices))
        self._take(kept)
        return kept

    def _take(self, one: ReservedRoom) -> None:
        self._nodes += 1
        self._recent += 1
        used = self._used.get(one.pool_key, {})
        self._used[one.pool_key] = add(used, {**one.capacity, NODES: 1})


def room_of_records(
    records: Iterable[LaunchRecord], machines: Mapping[str, Machine], catalogue: Catalogue
) -> dict[str, ReservedRoom]:
    """Room for the machines of open records, by uid: the most that each may become."""
    capacities = {kind.name: kind.capacity for kind in catalogue.types}
    kept: dict[str, ReservedRoom] = {}
    for record in records:
        names = {override["InstanceType"] for override in overrides_of(record.request)}
        most = largest(capacities[name] for name in names if name in capacities)
        for uid in record.uids:
            if uid in machines:
                kept[uid] = ReservedRoom(machines[uid].pool_key, most)
    return kept


def _by_pool(machines: Iterable[Machine]) -> dict[str, list[tuple[Machine, Resources]]]:
    found: dict[str, list[tuple[Machine, Resources]]] = {}
    for machine in machines:
        found.setdefault(machine.pool_key, []).append((machine, machine.capacity))
    return found


def _replaced(
    machines: Iterable[Machine], counting: Counting
) -> dict[tuple[str, str], dict[str, int]]:
    """(pool key, key of a replacement) -> what its command replaces in that pool."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for machine in machines:
        record = holder(machine)
        counts = not machine.terminating or (counting.terminating and still_costs(machine))
        for key in record.replacements if record is not None else ():
            before = found.get((machine.pool_key, key), {})
            size = {**machine.capacity, NODES: 1} if counts else {}
            found[machine.pool_key, key] = add(before, size)
    return found


def _less(used: Mapping[str, int], off: Mapping[str, int]) -> dict[str, int]:
    return {name: amount - off.get(name, 0) for name, amount in used.items()}


def largest(capacities: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for capacity in capacities:
        for name, amount in capacity.items():
            found[name] = max(found.get(name, 0), amount)
    return found


def _amount(capacity: Mapping[str, int], name: str) -> int:
    return 1 if name == NODES else capacity.get(name, 0)


def _since(machine: Machine) -> float:
    condition = machine.conditions.get(LAUNCHED)
    return condition.since if condition and condition.status == "True" else 0.0
