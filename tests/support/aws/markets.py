"""A market with something to gain, and plans made on it."""

from __future__ import annotations

from typing import Any

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import Catalogue
from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    make_catalogue,
    make_type,
)
from tests.support.planning.snapshots import plan_for

ANY_CAPACITY = (
    *DEFAULT_REQUIREMENTS[:2],
    Expression(keys.CAPACITY_TYPE, "In", (keys.ON_DEMAND, keys.SPOT)),
)


def market(**changes: Any) -> Catalogue:
    """Three families of different shape in six sizes each; large sizes cost a little more."""
    shapes = {"c5": (2, 40_000), "m5": (4, 48_000), "r5": (8, 62_000)}
    sizes = (1, 2, 4, 8, 16, 48)
    return make_catalogue(
        tuple(
            make_type(
                f"{family}.x{cpu:02d}", cpu, cpu * gib, cpu * price + cpu * cpu * 100, **changes
            )
            for family, (gib, price) in shapes.items()
            for cpu in sizes
        )
    )


def lowest(snapshot: Snapshot, **changes: Any) -> Plan:
    return plan_for(snapshot, packing_policy="LowestCost", **changes)
