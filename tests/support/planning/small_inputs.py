"""Small random inputs of the planner, and what the cheapest machines for them cost by an integer program of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from shared.domain import labels as keys
from shared.domain.instance_types.types import InstanceType
from shared.domain.resources import CPU, MEMORY, PODS
from shared.domain.snapshot import Snapshot
from tests.support.planning.builders import (
    make_catalogue,
    make_pod,
    make_snapshot,
    make_spread,
    make_type,
)

_SHAPES = [(cpu, gib) for cpu in (1, 2, 4, 8) for gib in (2, 4, 8)]
_CPU_MILLI = (250, 300, 500, 700, 900, 1100, 1500, 1900)
_MEMORY_MIB = (256, 512, 700, 1000, 1500, 2300, 3100)
_UNIT = 1e4


@dataclass(frozen=True)
class SmallInput:
    """Kinds of pods (number, millicores, MiB) and types with prices."""

    kinds: tuple[tuple[int, int, int], ...]
    types: tuple[InstanceType, ...]
    most: tuple[int, ...] = ()
    """Pods of each kind that one machine may hold, by spread over hosts; without: any number."""

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
        if not self.most:
            return {}
        own = {"app": f"kind-{kind}"}
        return {
            "labels": own,
            "spread": (make_spread(keys.HOSTNAME, self.most[kind], match_labels=own),),
        }

    def optimum(self) -> int:
        """The price of the cheapest machines for all pods, in micro-USD per hour."""
        contents, price = self._worth_considering()
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = contents.shape
        model.col_cost_ = price / _UNIT
        model.col_lower_ = np.zeros(len(price))
        model.col_upper_ = np.full(len(price), float(sum(n for n, _, _ in self.kinds)))
        model.row_lower_ = np.array([n for n, _, _ in self.kinds], dtype=np.float64)
        model.row_upper_ = np.full(len(self.kinds), highspy.kHighsInf)
        held = contents != 0
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.append(0, np.cumsum(held.sum(axis=1))).astype(np.int32)
        model.a_matrix_.index_ = np.nonzero(held)[1].astype(np.int32)
        model.a_matrix_.value_ = contents[held].astype(np.float64)
        model.num_col_, model.num_row_ = len(price), len(self.kinds)
        model.integrality_ = [highspy.HighsVarType.kInteger] * len(price)
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("mip_rel_gap", 1e-7)
        solver.passModel(model)
        solver.run()
        assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        copies = np.rint(np.array(solver.getSolution().col_value))
        return round(float(copies @ price))

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


def small_input(seed: int, *, limited: bool = False) -> SmallInput:
    """One to four kinds with up to 132 pods, two to eight types whose prices are up to 15 % off a linear one.

    ``limited``: one machine holds one to four pods of a kind.
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
    return SmallInput(kinds, types, most)
