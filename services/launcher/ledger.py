"""What is launched already and what may still come, and what of it leaves room for one more: pure (BAT-08, I4, I10).

A machine whose call is written down but not answered counts with the largest type that it may become, for EC2 chooses.
So the limits hold whatever EC2 answers, and whoever is refused for a guess that was too large gets in a moment later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from services.launcher.fleet import Choice
from shared.domain.machines import LAUNCHED, Machine
from shared.domain.resources import format_resources

NODES = "nodes"
"""The limit on the number of a pool's nodes (SCH-101)."""
MINUTE_SECONDS = 60.0


class Reservation(msgspec.Struct, frozen=True):
    """Room that is kept for a machine which has no instance yet. ``capacity``: the most that it may become."""

    pool_key: str
    capacity: dict[str, int]


@dataclass(frozen=True)
class SafetyLimits:
    """0: no limit."""

    max_nodes: int = 0
    launches_per_minute: int = 0


class Ledger:
    """Usage now. ``admit`` adds to it."""

    def __init__(
        self, machines: Iterable[Machine], reserved: Mapping[str, Reservation], *, now: float
    ) -> None:
        """``reserved``: by uid; of those that are launched meanwhile the machine counts."""
        self._used: dict[str, dict[str, int]] = {}
        self._nodes = 0
        self._recent = 0
        launched = set()
        for machine in machines:
            if not machine.provider_id:
                continue
            launched.add(machine.uid)
            self._nodes += 1
            self._recent += _since(machine) > now - MINUTE_SECONDS
            if not machine.terminating:
                self._add(machine.pool_key, machine.capacity)
        for uid, one in reserved.items():
            if uid not in launched:
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
        self, pool_key: str, limits: Mapping[str, int], choices: Iterable[Choice]
    ) -> list[Choice]:
        """The choices that keep the pool within its limits (BAT-08)."""
        used = self._used.get(pool_key, {})
        room = {name: most - used.get(name, 0) for name, most in limits.items()}
        return [
            choice
            for choice in choices
            if all(_amount(choice.type.capacity, name) <= left for name, left in room.items())
        ]

    def exceeded(self, pool_key: str, limits: Mapping[str, int]) -> str:
        """In words: which limits are used up how far."""
        most = format_resources(dict(limits))
        used = format_resources(
            {name: self._used.get(pool_key, {}).get(name, 0) for name in limits}
        )
        parts = (f"{name} {used[name]} of {most[name]}" for name in sorted(limits))
        return f"{pool_key} has no room for another machine within its limits: {', '.join(parts)}"

    def admit(self, pool_key: str, choices: Iterable[Choice]) -> Reservation:
        """Keep room for the largest of these choices."""
        kept = Reservation(pool_key, largest(choice.type.capacity for choice in choices))
        self._take(kept)
        return kept

    def _take(self, one: Reservation) -> None:
        self._nodes += 1
        self._recent += 1
        self._add(one.pool_key, one.capacity)

    def _add(self, pool_key: str, capacity: Mapping[str, int]) -> None:
        used = self._used.setdefault(pool_key, {})
        for name, amount in {**capacity, NODES: 1}.items():
            used[name] = used.get(name, 0) + amount


def largest(capacities: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The largest amount of each resource."""
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
