"""Things deleted behind our back, in any order: nothing is left and nobody hangs (F24, R7)."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from shared.domain.nodes import provider_instance_id
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.errors import NotFound
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES
from tests.services.conftest import Control
from tests.services.launcher.lifecycle_world import World

DELETED = ("instance", "node", "machine")
ORDERS = [
    order
    for count in (1, 2, 3)
    for order in itertools.permutations(DELETED, count)
]  # fmt: skip
SAMPLE = [(("node", "instance"), True, V1ALPHA5), (("machine", "instance"), False, V1)]
ALL = [(order, swept, api) for order in ORDERS for swept in (True, False) for api in (V1ALPHA5, V1)]
CASES = [
    pytest.param(*case, marks=() if case in SAMPLE else pytest.mark.nightly) for case in ALL
]  # fmt: skip


async def finish(world: World) -> None:
    """What a terminator comes to in the end, for all that has the order to go."""
    for resource in (MACHINES, NODE_CLAIMS, NODES):
        for raw in (await world.kube.list(resource)).items:
            meta = raw["metadata"]
            if not meta.get("deletionTimestamp"):
                continue
            provider_id = (raw.get("status") or {}).get("providerID") or raw["spec"].get(
                "providerID"
            )
            await world.cloud.ec2.terminate([provider_instance_id(provider_id)])
            await world.kube.patch(resource, meta["name"], {"metadata": {"finalizers": None}})
            await remove_nodes_of(world, provider_id)


async def remove_nodes_of(world: World, provider_id: str) -> None:
    """The terminator ends machine and node together."""
    for raw in (await world.kube.list(NODES)).items:
        if raw["spec"].get("providerID") == provider_id:
            name = raw["metadata"]["name"]
            try:
                await world.kube.patch(NODES, name, {"metadata": {"finalizers": None}})
                await world.kube.delete(NODES, name)
            except NotFound:
                continue


@pytest.mark.parametrize(("order", "swept", "generation_api"), CASES)
async def test_deletions_in_any_order_leave_nothing_behind(
    world: World, control: Control, order: tuple[str, ...], swept: bool, generation_api: str
) -> None:
    """F24: with and without a look in between; the neighbour stays."""
    victim = await world.registered("default-a", generation_api)
    neighbour = await world.registered("default-b", generation_api)
    for deleted in order:
        if deleted == "instance":
            await world.terminate(victim)
            with contextlib.suppress(NotFound):
                await world.report(victim.node_name, ready="Unknown")
        elif deleted == "node":
            with contextlib.suppress(NotFound):
                await world.remove_node(victim)
        elif not await is_gone(world, victim.key):
            await world.forget(victim)
        if swept:
            await world.sweep_twice()
            await finish(world)
    for _ in range(2):
        await world.sweep_twice()
        await finish(world)
    assert control.alive() == [provider_instance_id(neighbour.provider_id)]
    assert [machine.key for machine in await world.machines.list()] == [neighbour.key]
    assert not await world.is_leaving(neighbour)
    left = {raw["spec"]["providerID"] for raw in (await world.kube.list(NODES)).items}
    assert left == {neighbour.provider_id}


async def is_gone(world: World, key: str) -> bool:
    try:
        await world.machines.get(key)
    except NotFound:
        return True
    return False
