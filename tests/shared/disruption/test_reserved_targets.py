"""Consolidation into capacity reservations, and with minValues (CON-05, CON-07, SCH-12, SCH-54)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.disruption.methods import drift, single_node
from shared.disruption.records import World
from shared.disruption.replacement_price import NOT_CHEAPER
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.reservations import ID_LABEL, Reservation, with_reserved
from shared.domain.instance_types.types import InstanceType
from shared.domain.machines.machine import CONSOLIDATABLE, DRIFTED
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_EMPTY, WHEN_UNDERUTILIZED, Budget, NodePool
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import ZONES, make_catalogue, make_pool, make_types
from tests.support.planning.disruption import (
    NOW,
    conditions,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)

ANY = Expression(keys.CAPACITY_TYPE, "In", (keys.RESERVED, keys.SPOT, keys.ON_DEMAND))
CLASS = "EC2NodeClass/default"


def pool(*requirements: Expression, **changes: Any) -> NodePool:
    fields: dict[str, Any] = {
        "generation_api": V1,
        "consolidation_policy": WHEN_UNDERUTILIZED,
        "consolidate_after_seconds": 0.0,
        "budgets": (Budget("100%"),),
        "requirements": requirements or (ANY,),
    }
    return make_pool(**{**fields, **changes})


def reservation(name: str, kind: str = "m5.x004", **changes: Any) -> Reservation:
    fields: dict[str, Any] = {"zone": ZONES[0], "left": 1, "node_classes": (CLASS,)}
    return Reservation(name, kind, **{**fields, **changes})


def with_spot(kind: InstanceType) -> InstanceType:
    """A cluster with types at half the price."""
    spot = (
        replace(
            o, capacity_type=keys.SPOT, price_micro_usd_per_hour=o.price_micro_usd_per_hour // 2
        )
        for o in kind.offerings
    )
    return replace(kind, offerings=(*kind.offerings, *spot))


def one_node(capacity_type: str, *reservations: Reservation, count: int = 2) -> World:
    of = pool()
    running = make_running("a", capacity_type=capacity_type, pool=of)
    catalogue = with_reserved(make_catalogue(tuple(map(with_spot, make_types()))), reservations)
    return make_world(make_cluster([running], *pods_on("a", count), pools=(of,), catalogue=catalogue))  # fmt: skip


@pytest.mark.parametrize("capacity_type", [keys.ON_DEMAND, keys.SPOT])
def test_a_node_that_is_bought_moves_into_a_free_place(capacity_type: str) -> None:
    """A free place in a reservation adds no cost (CON-05)."""
    (command,) = single_node.propose(one_node(capacity_type, reservation("cr-1"))).commands
    (bought,) = command.replacements
    assert bought.labels[ID_LABEL] == "cr-1"
    assert bought.offering.price_micro_usd_per_hour == 0
    assert command.saving_micro_usd_per_hour > 0


@pytest.mark.parametrize("change", [{"left": 0}, {"node_classes": ("EC2NodeClass/other",)}])
def test_a_place_that_is_not_to_be_had_draws_nobody(change: dict[str, Any]) -> None:
    full = replace(reservation("cr-1"), **change)
    commands = single_node.propose(one_node(keys.ON_DEMAND, full)).commands
    assert all(m.offering.capacity_type != keys.RESERVED for c in commands for m in c.replacements)


def test_from_one_reservation_to_another_nothing_is_saved() -> None:
    """Both reservations are paid for (CON-07)."""
    found = single_node.propose(one_node(keys.RESERVED, reservation("cr-2")))
    assert found.commands == ()
    assert [one.text for one in found.rejections] == [NOT_CHEAPER]


def test_one_cheaper_machine_is_better_than_a_place_and_another_machine() -> None:
    """CON-04: the pods of one node go to one machine, though a part of them would fit a free place."""
    of = pool()
    running = make_running("a", "m5.x016", pool=of)
    catalogue = with_reserved(make_catalogue(), [reservation("cr-1")])
    snapshot = make_cluster([running], *pods_on("a", 6, cpu="1"), pools=(of,), catalogue=catalogue)
    (command,) = single_node.propose(make_world(snapshot)).commands
    assert len(command.replacements) == 1


BEST_EFFORT = SolverSettings(min_values_policy="BestEffort")


def choosy(**changes: Any) -> World:
    """A node that is too large, in a pool that wants more types than there are."""
    of = pool(Expression(keys.INSTANCE_TYPE, "Exists", (), 50))
    running = make_running("a", "m5.x016", pool=of, **changes)
    return make_world(make_cluster([running], *pods_on("a", 6), pools=(of,)), solver=BEST_EFFORT)


def test_consolidation_never_lowers_min_values() -> None:
    """BestEffort applies to pending pods only, and here none is pending (SCH-12)."""
    found = single_node.propose(choosy())
    assert found.commands == ()
    assert "minValues" in found.rejections[0].text


def test_drift_does() -> None:
    """The machine must be replaced, so minValues may be lowered (SCH-12)."""
    marks = {"extra": (CONSOLIDATABLE, DRIFTED)}
    assert drift.propose(choosy(**marks)).commands


def test_a_v1alpha5_node_with_a_ttl_is_a_target() -> None:
    """Only v1 waits for consolidateAfter; ttlSecondsAfterEmpty does not apply to nodes with pods (SCH-54)."""
    of = pool()
    old = make_pool("old", consolidation_policy=WHEN_EMPTY, consolidate_after_seconds=30.0)
    running = [make_running("a", pool=of), make_running("b", pool=old, extra=())]
    pods = (*pods_on("a", 2), *pods_on("b", 2))
    (command,) = single_node.propose(make_world(make_cluster(running, *pods, pools=(of, old)))).commands  # fmt: skip
    assert (command.decision, command.targets) == ("delete", ("b",))


def test_a_node_that_is_not_initialized_is_no_target() -> None:
    """The node might never become initialised (SCH-54)."""
    of = pool()
    running = [make_running("a", pool=of), make_running("b", pool=of)]
    coming = replace(running[1].machine, conditions=conditions("Launched", since=NOW))
    labels = {k: v for k, v in running[1].node.labels.items() if k != keys.INITIALIZED}
    running[1] = running[1]._replace(machine=coming, node=replace(running[1].node, labels=labels))
    found = single_node.propose(make_world(make_cluster(running, *pods_on("a", 2), pools=(of,))))
    assert all("b" not in command.targets for command in found.commands)
    assert "uninitialized" in found.rejections[0].text
