"""Machines whose instance ended by itself before its node joined (LCH-67, ACC-39, F25)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.resources import MACHINES, NODE_CLAIMS
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from tests.services.conftest import create_machine, create_node_claim
from tests.services.terminator.world import Place, World

Events = Callable[[], Awaitable[list[tuple[str, str]]]]
POOLS = {V1: "NodePool/default", V1ALPHA5: "Provisioner/default"}


async def launched(world: World, generation_api: str) -> Place:
    """A machine whose node has not joined."""
    (provider_id,) = await world.instances(1)
    v1 = generation_api == V1
    stored = await (create_node_claim if v1 else create_machine)(world.kube, "young")
    status = {"providerID": provider_id}
    resource = NODE_CLAIMS if v1 else MACHINES
    await world.kube.patch(resource, "young", {"status": status}, subresource="status")
    return Place(stored["kind"], "young", "none", provider_id)


async def failures(world: World, generation_api: str) -> dict[str, tuple[bool, ...]]:
    outcomes = RegistrationOutcomes(world.bus.redis, world.bus.prefix)
    return await outcomes.recent([POOLS[generation_api]])


@pytest.mark.parametrize("generation_api", [V1ALPHA5, V1])
async def test_a_machine_that_an_interruption_message_deleted_first_is_explained_and_counted(
    world: World, events: Events, generation_api: str
) -> None:
    """EC2's message is faster than any look at EC2's list; without this the pool would launch for ever."""
    world.control.post("faults", action="KMSDecrypt", count=1)
    young = await launched(world, generation_api)
    world.clock.advance(10)
    world.delete(young)
    await world.until_gone(young)
    assert (await events()).count(("InstanceTerminated", "young")) == 1
    assert await failures(world, generation_api) == {POOLS[generation_api]: (False,)}


async def test_an_end_that_was_ordered_says_nothing_of_the_pool(
    world: World, events: Events
) -> None:
    """By kubectl delete, for example: we end the instance, and EC2 says so."""
    young = await launched(world, V1)
    world.delete(young)
    await world.until_gone(young)
    assert ("InstanceTerminated", "young") not in await events()
    assert await failures(world, V1) == {}


async def test_a_node_that_had_joined_says_nothing_of_the_pool(
    world: World, events: Events
) -> None:
    """The boot worked: what ended the instance afterby_pool need not end the next one."""
    world.control.post("faults", action="KMSDecrypt", count=1)
    (place,) = await world.places([V1])
    world.clock.advance(10)
    world.delete(place)
    await world.until_gone(place)
    assert ("InstanceTerminated", place.machine) not in await events()
    assert await failures(world, V1) == {}
