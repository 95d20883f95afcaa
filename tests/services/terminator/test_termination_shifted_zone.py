"""A termination in a zone that the cluster is shifted away from waits with EC2, not with the pods (GAT-03)."""

from __future__ import annotations

import pytest

from shared.domain.pools.generations import V1, V1ALPHA5
from shared.redis.mirror.catalogue.shifted_zones import SHIFTED_ZONES_CACHE_SECONDS, ShiftedZones
from tests.services.conftest import Control
from tests.services.terminator.world import World

BOTH = pytest.mark.parametrize("generation_api", [V1ALPHA5, V1])


@BOTH
async def test_ec2_hears_nothing_before_the_shift_is_over(
    world: World, control: Control, generation_api: str
) -> None:
    """Neither DescribeInstances nor TerminateInstances; the pods leave at once."""
    (place,) = await world.places([generation_api])
    pod = world.pod("web", place.node)
    shifted = ShiftedZones(world.bus.redis, world.bus.prefix, world.clock)
    await shifted.put({world.subnet.zone})
    calls = len(control.get("calls")["calls"])
    world.delete(place)
    for _ in range(8):
        await world.turn(SHIFTED_ZONES_CACHE_SECONDS)
    assert world.leaving(pod) == {}, "it has left the node"
    assert control.alive()
    assert len(control.get("calls")["calls"]) == calls
    await shifted.put(())
    await world.until_gone(place)
    assert control.alive() == []
