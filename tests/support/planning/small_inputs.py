"""Small random inputs of the planner, and what the cheapest machines for them cost by an integer program of its own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np

from shared.domain import labels as keys
from shared.domain.instance_types.types import InstanceType
from shared.domain.resources import CPU, MEMORY, PODS
from shared.domain.snapshot import Snapshot
from tests.support.planning.builders import (
    ZONES,
    make_catalogue,
    make_pod,
    make_snapshot,
    make_spread,
    make_type,
)

_SHAPES = [(cpu, gib) for cpu in (1, 2, 4, 8) for gib in (2, 4, 8)]
_CPU_MILLI = (250, 300, 500, 700, 900, 1100, 1500, 1900)
_MEMORY_MIB = (256, 512, 700, 1000, 1500, 2300, 3100)
_SOLVER_SECONDS = 60.0
"""One input in some hundred takes minutes or longer: 1135, 1201."""
_UNIT = 1e4
SPREAD = "spread over zones"


class Undecided(Exception):
    """The integer program found no proof in time."""


@dataclass(frozen=True)
class SmallInput:
    """Kinds of pods (number, millicores, MiB) and types with prices."""

    kinds: tuple[tuple[int, int, int], ...]
    types: tuple[InstanceType, ...]
    most: tuple[int, ...] = ()
    """Pods of each kind that one machine may hold, by spread over hosts; without: any number."""
    places: tuple[str, ...] = ()
    """Where the pods of each kind go: to one zone, SPREAD over all, or "" anywhere; without: anywhere."""

    @property
    def has_room(self) -> bool:
        """Does each kind fit some type? Where all types are small one may not."""
        rooms = [shape.allocatable() for shape in self.types]
        return all(
            any(room[CPU] >= cpu and room[MEMORY] >= mib * 1024**2 for room in rooms)
            for _, cpu, mib in self.kinds
        )

    def snapshot(self) -> Snapshot:
        """All pods wait, and there are no nodes."""
        pods = [
            make_pod(f"p{kind}-{i:03d}", f"{cpu}m", f"{mib}Mi", **self._rules(kind))
            for kind, (number, cpu, mib) in enumerate(self.kinds)
            for i in range(number)
        ]
        return make_snapshot(*pods, catalogue=make_catalogue(self.types))

    def _rules(self, kind: int) -> dict[str, Any]:
        own = {"app": f"kind-{kind}"}
        place = self.places[kind] if self.places else ""
        if self.most:
            spread = make_spread(keys.HOSTNAME, self.most[kind], match_labels=own)
            return {"labels": own, "spread": (spread,)}
        if place == SPREAD:
            return {"labels": own, "spread": (make_spread(keys.ZONE, 1, match_labels=own),)}
        return {"node_selector": {keys.ZONE: place}} if place else {}

    def optimum(self) -> int:
        """The price of the cheapest machines for all pods, in micro-USD per hour. Raises Undecided."""
        return self._with_equal_kinds_joined()._optimum()

    def _with_equal_kinds_joined(self) -> SmallInput:
        """Kinds of one size that no rule counts by themselves are one: telling them apart takes the solver minutes."""
        if self.most:
            return self
        places = self.places or ("",) * len(self.kinds)
        numbers = Counter[tuple[int, int, str, int]]()
        for at, ((number, cpu, mib), place) in enumerate(zip(self.kinds, places, strict=True)):
            numbers[cpu, mib, place, at if place == SPREAD else -1] += number
        kinds = tuple((number, cpu, mib) for (cpu, mib, _, _), number in numbers.items())
        joined = tuple(place for _, _, place, _ in numbers)
        return replace(self, kinds=kinds, places=joined if self.places else ())

    def _optimum(self) -> int:
        contents, price = self._worth_considering()
        zones = ZONES if self.places else ("",)
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("mip_rel_gap", 1e-7)
        copies = [
            [solver.addIntegral(lb=0, obj=float(one) / _UNIT) for one in price] for _ in zones
        ]
        for kind, (number, _, _) in enumerate(self.kinds):
            place = self.places[kind] if self.places else ""
            each, more = divmod(number, len(zones))
            shares = []
            for zone, machines in zip(zones, copies, strict=True):
                least, most = (each, each + bool(more)) if place == SPREAD else (0, number)
                share = solver.addIntegral(lb=least, ub=most if place in ("", SPREAD, zone) else 0)
                held = solver.qsum(
                    int(content[kind]) * one
                    for content, one in zip(contents, machines, strict=True)
                    if content[kind]
                )
                solver.addConstr(held >= share)
                shares.append(share)
            solver.addConstr(solver.qsum(shares) == number)
        solver.setOptionValue("time_limit", _SOLVER_SECONDS)
        solver.minimize()
        if solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit:
            raise Undecided
        assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        found = [solver.vals(machines) for machines in copies]
        return round(float(np.rint(np.array(found)).sum(axis=0) @ price))

    def _worth_considering(self) -> tuple[np.ndarray, np.ndarray]:
        """Every content that no cheaper machine holds with more beside it: ([contents, kinds], prices)."""
        cheapest: dict[tuple[int, ...], int] = {}
        for shape in self.types:
            room = shape.allocatable()
            price = min(one.price_micro_usd_per_hour for one in shape.offerings)
            for content in self._contents(0, (room[CPU], room[MEMORY], room[PODS])):
                cheapest[content] = min(price, cheapest.get(content, price))
        listed = sorted(cheapest.items(), key=lambda item: (item[1], item[0]))
        contents = np.array([content for content, _ in listed])
        prices = np.array([price for _, price in listed], dtype=np.float64)
        kept: list[int] = []
        for i in np.lexsort((prices, -contents.sum(axis=1))):
            covers = (contents[kept] >= contents[i]).all(axis=1) & (prices[kept] <= prices[i])
            if not covers.any():
                kept.append(int(i))
        return contents[kept], prices[kept]

    def _contents(self, kind: int, room: tuple[int, int, int]) -> Iterator[tuple[int, ...]]:
        if kind == len(self.kinds):
            yield ()
            return
        number, cpu, mib = self.kinds[kind]
        number = min(number, self.most[kind]) if self.most else number
        for pods in range(number + 1):
            left = (room[0] - pods * cpu, room[1] - pods * mib * 1024**2, room[2] - pods)
            if min(left) < 0:
                return
            for rest in self._contents(kind + 1, left):
                yield (pods, *rest)


def small_input(seed: int, *, limited: bool = False, zoned: bool = False) -> SmallInput:
    """One to four kinds with up to 132 pods, two to eight types whose prices are up to 15 % off a linear one.

    ``limited``: one machine holds one to four pods of a kind. ``zoned``: kinds go to one zone, to all or anywhere.
    """
    draw = random.Random(seed)
    shapes = draw.sample(_SHAPES, draw.randint(2, 8))
    types = tuple(
        make_type(f"t{i}.x", cpu, cpu * gib, cpu * (30_000 + gib * 3000) * percent // 100)
        for i, (cpu, gib) in enumerate(shapes)
        for percent in (draw.randint(85, 115),)
    )
    kinds = tuple(
        (draw.randint(1, 33), draw.choice(_CPU_MILLI), draw.choice(_MEMORY_MIB))
        for _ in range(draw.randint(1, 4))
    )
    most = tuple(draw.randint(1, 4) for _ in kinds) if limited else ()
    places = tuple(draw.choice((*ZONES[:2], SPREAD, SPREAD, "")) for _ in kinds) if zoned else ()
    return SmallInput(kinds, types, most, places)
