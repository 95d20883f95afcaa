"""Instances carry the names of their node and claim (LCH-56)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from services.launcher.lifecycle.tagging import Tagging
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import provider_instance_id
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.transport.pacing import TokenBucket
from tests.services.conftest import Control
from tests.services.launcher.lifecycle_world import World


def tagging_in(world: World) -> Tagging:
    def listed() -> Sequence[Machine]:
        return world.handlers.listed

    return Tagging(world.machines, listed, world.cloud, world.clock, world.shifted)


@pytest.fixture
def tagging(world: World) -> Tagging:
    made = tagging_in(world)
    made.bucket = TokenBucket(1000, 1000, world.clock)  # the pace is tested by itself
    return made


async def tag_what_is_listed(world: World, tagging: Tagging) -> None:
    await world.handlers.resync()
    await tagging.tag_some()


def tags_of(control: Control, machine: Machine) -> dict[str, str]:
    wanted = provider_instance_id(machine.provider_id)
    (found,) = [row["tags"] for row in control.instances() if row["instanceId"] == wanted]
    return dict(found)


async def test_a_registered_claim_names_its_instance_once(
    world: World, tagging: Tagging, control: Control
) -> None:
    """LCH-56: and the claim says that it is done."""
    machine = await world.registered("default-a", V1)
    waiting = await world.launched("default-b", V1)
    await tag_what_is_listed(world, tagging)
    tags = tags_of(control, machine)
    assert (tags["Name"], tags[keys.NODE_CLAIM_TAG]) == (machine.node_name, "default-a")
    assert "Name" not in tags_of(control, waiting), "its node did not join yet"
    done = await world.now(machine)
    assert done.annotations[keys.TAGGED_ANNOTATION] == "true"
    await tag_what_is_listed(world, tagging)
    assert await world.now(machine) == done


async def test_the_users_own_name_stays(world: World, tagging: Tagging, control: Control) -> None:
    """LCH-56: tags; ACC-23: options in template and tags."""
    machine = await world.registered("default-a", V1)
    await world.cloud.ec2.tag([provider_instance_id(machine.provider_id)], {"Name": "mine"})
    await tag_what_is_listed(world, tagging)
    tags = tags_of(control, machine)
    assert (tags["Name"], tags[keys.NODE_CLAIM_TAG]) == ("mine", "default-a")


async def test_a_v1alpha5_machine_keeps_the_tags_of_its_launch(
    world: World, tagging: Tagging, control: Control
) -> None:
    """LCH-56: tags."""
    machine = await world.registered("default-a", V1ALPHA5)
    before = tags_of(control, machine)
    await tag_what_is_listed(world, tagging)
    assert tags_of(control, machine) == before


def test_tags_are_written_one_a_second(world: World) -> None:
    """LCH-56: launches need the API calls more."""
    bucket = tagging_in(world).bucket
    assert [bucket.reserve() for _ in range(3)] == [0.0, 1.0, 2.0]


async def test_what_was_tagged_since_the_listing_is_not_tagged_again(
    world: World, tagging: Tagging
) -> None:
    """The listing is up to 15 s old, and still shows the machine without its tags."""
    machine = await world.registered("default-a", V1)
    await tag_what_is_listed(world, tagging)
    done = await world.now(machine)
    await world.machines.patch(done, {"annotations": {keys.TAGGED_ANNOTATION: None}})
    await tagging.tag_some()
    assert keys.TAGGED_ANNOTATION not in (await world.now(machine)).annotations
