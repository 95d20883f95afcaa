"""Which types and capacity types a replacement asks for (CON-06, CON-09)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.disruption.methods import multi_node, single_node
from shared.domain import labels as keys
from shared.domain.instance_types.types import Offering
from tests.shared.disruption.methods.test_consolidation import (
    ANY_CAPACITY,
    offered,
    pool,
    spot_catalogue,
    world,
)
from tests.support.planning.builders import ZONES, make_catalogue, make_type
from tests.support.planning.disruption import make_running, pods_on


def test_on_demand_alone_is_asked_for_where_that_is_cheaper_than_spot() -> None:
    """CON-06: spot of m5.x004 is not sold or dear; a launch that asks for spot alone would have no type."""
    of = pool(requirements=ANY_CAPACITY)
    big = offered(make_type("m5.x008", 8, 32, 1), (keys.SPOT, 2900), (keys.ON_DEMAND, 3000))
    for spot in ((), ((keys.SPOT, 2000),)):
        small = offered(make_type("m5.x004", 4, 16, 1), *spot, (keys.ON_DEMAND, 1500))
        running = [make_running("a", "m5.x008", pool=of)]
        types = make_catalogue((big, small))
        found = world(running, *pods_on("a", 2), of=of, catalogue=types)
        (command,) = single_node.propose(found).commands
        (machine,) = command.replacements
        wanted = {e.key: e.values for e in machine.requirements}
        assert wanted[keys.CAPACITY_TYPE] == (keys.ON_DEMAND,)
        assert machine.instance_types == ("m5.x004",)
        assert command.saving_micro_usd_per_hour == 1500


def test_every_type_of_a_replacement_by_spot_is_sold_as_spot() -> None:
    """CON-06: m5.x004 is sold on demand only, and would never be launched."""
    of = pool(requirements=ANY_CAPACITY)
    types = list(spot_catalogue(3).types)
    types.append(offered(make_type("m5.x004", 4, 16, 1), (keys.ON_DEMAND, 1500)))
    running = [make_running("a", "m5.x008", pool=of)]
    found = world(running, *pods_on("a", 2), of=of, catalogue=make_catalogue(tuple(types)))
    (command,) = single_node.propose(found).commands
    listed = command.replacements[0].instance_types
    assert listed == ("c0.x004", "c1.x004", "c2.x004", "m5.x008")


@pytest.mark.parametrize("pods", [1, 5])
def test_the_cheapest_node_of_the_replacement_s_type_is_the_one_to_beat(pods: int) -> None:
    """Of two nodes of one type, spot in a cheap zone and on demand, to delete the dear one saves the same (CON-09),
    whichever of them costs less to disrupt."""
    of = pool(requirements=ANY_CAPACITY)
    kind = offered(make_type("m5.x004", 4, 16, 1), (keys.SPOT, 800), (keys.ON_DEMAND, 1000))
    offerings = (Offering(ZONES[0], keys.SPOT, 500), *kind.offerings[1:])
    running = [
        make_running("cheap", "m5.x004", pool=of, capacity_type=keys.SPOT, zone=ZONES[0]),
        make_running("dear", "m5.x004", pool=of, zone=ZONES[0]),
    ]
    moving = [*pods_on("cheap", 1, cpu="100m"), *pods_on("dear", pods, cpu="600m")]
    types = make_catalogue((replace(kind, offerings=offerings),))
    found = world(running, *moving, of=of, catalogue=types)
    assert not [one for one in multi_node.propose(found).commands if one.replacements]
