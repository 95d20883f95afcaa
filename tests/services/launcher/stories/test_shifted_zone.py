"""What is in a zone that the cluster is shifted away from is let be (GAT-03)."""

from __future__ import annotations

import pytest

from services.launcher.lifecycle.tagging import Tagging
from shared.domain import labels as keys
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.redis.mirror.catalogue.shifted_zones import SHIFTED_ZONES_CACHE_SECONDS
from tests.services.conftest import Control
from tests.services.launcher.lifecycle_world import World


async def shift(world: World, control: Control, *, active: bool = True) -> None:
    """Away from the zones of all instances, or back."""
    zones = {row["zone"] for row in control.instances()} | {"us-west-2a"}
    await world.shifted.put(zones if active else ())
    world.clock.advance(SHIFTED_ZONES_CACHE_SECONDS)


@pytest.mark.slow
async def test_nothing_is_judged_by_what_ec2_shows_of_the_zone(
    world: World, control: Control
) -> None:
    """A machine whose instance is gone, one whose node is gone, and an instance without a machine wait for the end of
    the shift; then each goes its way."""
    lost = await world.registered("default-a")
    bare = await world.registered("default-b", V1)
    orphan = await world.launched("default-c")
    for number in range(6):
        await world.registered(f"default-good-{number}", V1 if number % 2 else V1ALPHA5)
    await world.terminate(lost)
    await world.report(lost.node_name, ready="Unknown")
    await world.remove_node(bare)
    await world.forget(orphan)
    await shift(world, control)
    before = control.alive()
    await world.sweep_twice()
    assert not await world.is_leaving(lost)
    assert not await world.is_leaving(bare)
    assert control.alive() == before
    await shift(world, control, active=False)
    await world.sweep_twice()
    assert await world.is_leaving(lost)
    assert await world.is_leaving(bare)
    assert len(control.alive()) == len(before) - 1


async def test_no_instance_of_the_zone_is_tagged(world: World, control: Control) -> None:
    """LCH-56 waits for the end of the shift."""
    machine = await world.registered("default-a", V1)
    listed = [machine]
    tagging = Tagging(world.machines, lambda: listed, world.cloud, world.clock, world.shifted)
    await shift(world, control)
    await tagging.tag_some()
    assert keys.TAGGED_ANNOTATION not in (await world.now(machine)).annotations
    await shift(world, control, active=False)
    await tagging.tag_some()
    assert (await world.now(machine)).annotations[keys.TAGGED_ANNOTATION] == "true"
