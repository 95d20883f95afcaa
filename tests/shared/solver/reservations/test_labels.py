"""Labels of capacity reservations in requirements (IT-04)."""

from __future__ import annotations

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.reservations import ID_LABEL, INTERRUPTIBLE_LABEL, TYPE_LABEL
from shared.domain.pools.generations import V1
from tests.shared.solver.reservations.test_reserving import cluster, planned, reservation
from tests.support.planning.builders import make_pool


@pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost"])
@pytest.mark.parametrize(
    ("rule", "bought"),
    [
        (Expression(INTERRUPTIBLE_LABEL, "In", ("true",)), []),
        (Expression(ID_LABEL, "Exists"), []),
        (Expression(TYPE_LABEL, "In", ("default",)), []),
        (Expression(INTERRUPTIBLE_LABEL, "NotIn", ("false",)), [keys.ON_DEMAND]),
    ],
)
def test_who_asks_for_a_label_of_reservations_gets_no_other_machine(
    rule: Expression, bought: list[str], policy: str
) -> None:
    """IT-04: of two machines one has a place. No spot or on-demand machine has such a label."""
    markets = Expression(keys.CAPACITY_TYPE, "In", (keys.RESERVED, keys.ON_DEMAND))
    pool = make_pool(generation_api=V1, requirements=(markets, rule))
    plan = planned(cluster(reservation(interruptible=True), pods=2, pools=(pool,)), policy)
    kinds = sorted(one.offering.capacity_type for one in plan.machines)
    assert kinds == sorted([keys.RESERVED, *bought])
    assert len(plan.unschedulable) == 1 - len(bought)
