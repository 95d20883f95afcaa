"""Machines whose instance somebody stopped before its node joined: its notice found no machine."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain.machines.machine import Machine
from shared.domain.nodes import provider_instance_id
from shared.domain.pools.generations import V1, V1ALPHA5
from tests.services.conftest import Control
from tests.services.launcher.lifecycle_world import World

Events = Any


def stop(control: Control, *machines: Machine) -> None:
    """As somebody does in the EC2 console."""
    ids = [provider_instance_id(machine.provider_id) for machine in machines]
    control.post("interruptions", kind="state-change", state="stopping", instanceIds=ids)


@pytest.mark.parametrize("generation_api", [V1ALPHA5, V1])
async def test_a_machine_goes_when_two_sweeps_see_its_instance_stopped(
    world: World, control: Control, events: Events, generation_api: str
) -> None:
    stopped = await world.launched("default-a", generation_api)
    other = await world.launched("default-b", generation_api)
    stop(control, stopped)
    await world.sweep()
    assert not await world.is_leaving(stopped), "one look is not proof (R7)"
    world.clock.advance(61)
    await world.sweep()
    assert await world.is_leaving(stopped)
    assert not await world.is_leaving(other)
    assert ("InstanceStopped", "default-a") in await events()


async def test_a_node_that_joined_is_left_to_its_notice(world: World, control: Control) -> None:
    """A person may stop a node and start it again; only EC2's notice says that this is one of those that must go."""
    joined = await world.registered("default-a")
    stop(control, joined)
    await world.sweep_twice()
    assert not await world.is_leaving(joined)
