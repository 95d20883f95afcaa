"""A machine whose pods use devices is initialised once their drivers have published them (DRA-07, LCH-75)."""

from __future__ import annotations

from typing import Any

from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.pools.generations import V1
from shared.kube.resources import NODE_CLAIMS, NODES, RESOURCE_SLICES
from tests.services.launcher.lifecycle_world import World

NODE, DRIVER = "node-default-a", "gpu.nvidia.com"


async def ready(world: World, drivers: str) -> Machine:
    """A NodeClaim with these drivers, whose node is ready and lacks nothing else."""
    machine = await world.launched("default-a", V1, "aws:///us-west-2a/i-0123456789abcdef0")
    note = {"metadata": {"annotations": {keys.DRA_DRIVERS_ANNOTATION: drivers}}}
    await world.kube.patch(NODE_CLAIMS, "default-a", note)
    await world.join(machine)
    for _ in range(2):
        await world.lifecycle.node_changed(NODE)
    return await world.now(machine)


def slice_of(name: str, driver: str, slices: int = 1) -> dict[str, Any]:
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": slices}
    devices = [{"name": "gpu-0"}]
    spec = {"driver": driver, "nodeName": NODE, "pool": pool, "devices": devices}
    return {"metadata": {"name": name}, "spec": spec}


async def test_it_waits_for_a_complete_pool_of_every_driver(world: World) -> None:
    machine = await ready(world, f"{DRIVER},nic.example.com")
    waiting = machine.conditions[INITIALIZED]
    assert (waiting.status, waiting.reason) == ("Unknown", "DRADriverPoolsNotPublished")
    assert f'"{DRIVER}" has not published' in waiting.message
    await world.kube.create(RESOURCE_SLICES, slice_of("gpus-0", DRIVER, slices=2))
    await world.lifecycle.node_changed(NODE)
    assert not (await world.now(machine)).has(INITIALIZED), "half of the pool"
    await world.kube.create(RESOURCE_SLICES, slice_of("gpus-1", DRIVER, slices=2))
    await world.lifecycle.node_changed(NODE)
    assert "nic.example.com" in (await world.now(machine)).conditions[INITIALIZED].message
    await world.kube.create(RESOURCE_SLICES, slice_of("nics", "nic.example.com"))
    await world.lifecycle.node_changed(NODE)
    assert (await world.now(machine)).has(INITIALIZED)
    node = await world.kube.get(NODES, NODE)
    assert node["metadata"]["annotations"][keys.DRA_DRIVERS_ANNOTATION].startswith(DRIVER)


async def test_without_the_annotation_nobody_reads_slices(world: World) -> None:
    assert (await ready(world, "")).has(INITIALIZED)
