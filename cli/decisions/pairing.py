"""Pairs the decisions of a shadow with those of the real scheduler. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.concurrency.clock import rfc3339
from shared.simulation.decisions.records import (
    CommandOutcome,
    DecisionRecord,
    PassOutcome,
    decode_outcome,
)
from shared.solver.plan import Plan, PlannedMachine

NEAR_SECONDS = 60.0


@dataclass(frozen=True)
class Decision:
    """A decision that would change something. ``about``: UIDs of pods, or keys of machines."""

    record: DecisionRecord
    about: frozenset[str]
    machines: tuple[tuple[str, str, str, int], ...]
    """(type, zone, capacity type, pods) of each new machine, sorted."""


@dataclass(frozen=True)
class Pair:
    """Two decisions in one situation; one may be absent."""

    real: DecisionRecord | None
    shadow: DecisionRecord | None
    equal: bool

    @property
    def at(self) -> float:
        """Seconds since the epoch."""
        return min(one.at for one in (self.real, self.shadow) if one is not None)

    @property
    def kind(self) -> str:
        """``plan`` or ``pass``."""
        return next(one.kind for one in (self.real, self.shadow) if one is not None)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        sides = {"real": self.real, "shadow": self.shadow}
        shown = {
            name: None if one is None else {"id": one.id, "cost": one.cost, "text": one.text}
            for name, one in sides.items()
        }
        return {"at": rfc3339(self.at), "kind": self.kind, "equal": self.equal, **shown}


@dataclass(frozen=True)
class Compared:
    """All pairs, by time."""

    pairs: tuple[Pair, ...]

    def totals(self) -> dict[str, Any]:
        """``real`` and ``shadow``: US dollars an hour of all that is compared."""
        both = [pair for pair in self.pairs if pair.real and pair.shadow]
        return {
            "compared": len(both),
            "equal": sum(pair.equal for pair in both),
            "onlyReal": sum(pair.shadow is None for pair in self.pairs),
            "onlyShadow": sum(pair.real is None for pair in self.pairs),
            "real": round(sum(p.real.cost or 0.0 for p in both if p.real), 6),
            "shadow": round(sum(p.shadow.cost or 0.0 for p in both if p.shadow), 6),
        }


def compare(real: Iterable[DecisionRecord], shadow: Iterable[DecisionRecord]) -> Compared:
    """A shadow plans for the same pods again until they run: its first plan counts."""
    ours, others = _decisions(real), _decisions(shadow)
    places: dict[str, list[int]] = defaultdict(list)
    for place, other in enumerate(others):
        for name in other.about:
            places[name].append(place)
    used: set[int] = set()
    pairs = []
    for one in ours:
        met = sorted({place for name in one.about for place in places[name]})
        near = [place for place in met if _is_near(one, others[place])]
        found = next((place for place in near if place not in used), None)
        used |= set(near)
        pairs.append(_pair(one, None if found is None else others[found]))
    seen: set[str] = {name for one in ours for name in one.about}
    for place, other in enumerate(others):
        if place not in used and not other.about & seen:
            seen |= other.about
            pairs.append(_pair(None, other))
    return Compared(tuple(sorted(pairs, key=lambda pair: pair.at)))


def _is_near(one: Decision, other: Decision) -> bool:
    same = one.record.kind == other.record.kind
    return same and abs(one.record.at - other.record.at) <= NEAR_SECONDS


def _pair(real: Decision | None, shadow: Decision | None) -> Pair:
    equal = bool(
        real and shadow and real.machines == shadow.machines and real.about == shadow.about
    )
    return Pair(real.record if real else None, shadow.record if shadow else None, equal)


def _decisions(records: Iterable[DecisionRecord]) -> list[Decision]:
    found = (_decision(record) for record in records)
    return [one for one in found if one is not None]


def _decision(record: DecisionRecord) -> Decision | None:
    """None for what would change nothing, and for a second look at a command."""
    outcome = decode_outcome(record.kind, record.outcome)
    if isinstance(outcome, Plan):
        pods = frozenset(uid for machine in outcome.machines for uid in machine.pods)
        return Decision(record, pods, _machines(outcome.machines)) if pods else None
    if isinstance(outcome, PassOutcome) and outcome.command is not None:
        command: CommandOutcome = outcome.command
        return Decision(record, frozenset(command.candidates), _machines(command.replacements))
    return None


def _machines(planned: Sequence[PlannedMachine]) -> tuple[tuple[str, str, str, int], ...]:
    rows = (
        (one.instance_type, one.offering.zone, one.offering.capacity_type, len(one.pods))
        for one in planned
    )
    return tuple(sorted(rows))
