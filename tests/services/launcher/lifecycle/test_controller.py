"""From launched to initialised on a real API server (LCH-70..LCH-78)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.api.core.nodes import parse_node
from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodes import Node
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.client import Kube
from shared.kube.resources import NODES
from shared.redis.bus.connection import call
from shared.settings import LauncherSettings, read
from tests.services.conftest import CLUSTER, create_machine, create_pool
from tests.services.launcher.lifecycle_world import World

NODE = "node-default-a"
PROVIDER_ID = "aws:///us-west-2a/i-0123456789abcdef0"
STARTUP = {"key": "example.com/boot", "effect": "NoExecute"}
TAINTED = {
    "taints": [{"key": "special", "value": "x", "effect": "NoSchedule"}],
    "startupTaints": [STARTUP],
}
BOTH = pytest.mark.parametrize("generation_api", [V1ALPHA5, V1])


async def launched(world: World, generation_api: str = V1ALPHA5) -> Machine:
    return await world.launched("default-a", generation_api, PROVIDER_ID, **TAINTED)


async def node_now(kube: Kube) -> Node:
    return parse_node(await kube.get(NODES, NODE))


async def review(world: World, machine: Machine) -> int:
    """What the resync does."""
    nodes = [parse_node(raw) for raw in (await world.kube.list(NODES)).items]
    return await world.lifecycle.review([await world.now(machine)], nodes)


@BOTH
async def test_a_node_that_joins_is_registered(world: World, generation_api: str) -> None:
    """LCH-73, LCH-74, M-05, M-06: labels, taints, finalizer and owner, and the Machine knows its node."""
    machine = await launched(world, generation_api)
    await world.join(machine)
    await world.lifecycle.node_changed(NODE)
    raw, node = await world.kube.get(NODES, NODE), await node_now(world.kube)
    assert node.labels[keys.REGISTERED] == "true"
    pool = keys.PROVISIONER_NAME if generation_api == V1ALPHA5 else keys.NODE_POOL
    assert node.labels[pool] == "default"
    assert node.labels[keys.INSTANCE_TYPE] == "m5.large"
    assert node.finalizers == (keys.FINALIZER,)
    ours = {(t.key, t.effect) for t in node.taints}
    assert {("special", "NoSchedule"), (STARTUP["key"], STARTUP["effect"])} <= ours
    assert keys.UNREGISTERED_TAINT_KEY not in {key for key, _ in ours}
    (owner,) = raw["metadata"]["ownerReferences"]
    expected = (machine.kind, machine.uid, True)
    assert (owner["kind"], owner["uid"], owner["blockOwnerDeletion"]) == expected
    machine = await world.now(machine)
    assert machine.has(REGISTERED)
    assert machine.node_name == NODE
    assert world.metrics.nodes_created.labels("default", "")._value.get() == 1


@BOTH
async def test_a_node_is_initialised_once_nothing_is_missing(
    world: World, generation_api: str
) -> None:
    """LCH-75: ready, without startup taints, with its resources; then the Machine is Ready (M-03, NC-03)."""
    machine = await launched(world, generation_api)
    await world.join(machine, ready=False)
    for _ in range(2):
        await world.lifecycle.node_changed(NODE)
    waiting = (await world.now(machine)).conditions[INITIALIZED]
    assert (waiting.reason, waiting.message) == ("NodeNotReady", "node is not ready")
    await world.report(NODE)
    await world.lifecycle.node_changed(NODE)
    assert "startup taint" in (await world.now(machine)).conditions[INITIALIZED].message
    await world.kube.patch(NODES, NODE, {"spec": {"taints": []}})
    await world.lifecycle.node_changed(NODE)
    machine = await world.now(machine)
    assert machine.has(INITIALIZED)
    assert machine.has("Ready")
    assert (await node_now(world.kube)).is_initialized
    before = await world.kube.get(NODES, NODE)
    await world.lifecycle.node_changed(NODE)
    assert await world.kube.get(NODES, NODE) == before, "settled: nothing more is written"


async def test_the_timed_look_does_the_same_without_messages(world: World) -> None:
    """R2: own work is listed."""
    machine = await launched(world)
    assert await review(world, machine) == 0
    assert (await world.now(machine)).conditions[REGISTERED].reason == "NodeNotFound"
    await world.join(machine)
    assert await review(world, machine) == 1
    assert (await world.now(machine)).has(REGISTERED)


async def test_a_crash_between_node_and_condition_is_mended(world: World) -> None:
    """LCH-74: the startup taint that its agent took off meanwhile does not come back."""
    machine = await launched(world)
    await world.join(machine, ready=False)
    labels = {"metadata": {"labels": {keys.REGISTERED: "true"}}, "spec": {"taints": []}}
    await world.kube.patch(NODES, NODE, labels)
    world.restart()
    await review(world, machine)
    assert (await world.now(machine)).has(REGISTERED)
    assert (await node_now(world.kube)).taints == ()


async def test_two_nodes_with_one_provider_id_are_one_too_many(world: World) -> None:
    """LCH-73: neither is registered until one is gone, by message and by listing."""
    machine = await launched(world)
    await world.join(machine, "first")
    await world.join(machine, NODE)
    await review(world, machine)
    assert (await world.now(machine)).conditions[REGISTERED].reason == "MultipleNodesFound"
    await world.lifecycle.node_changed(NODE)
    assert not (await world.now(machine)).has(REGISTERED)
    await world.kube.delete(NODES, "first")
    await world.lifecycle.node_changed(NODE)
    machine = await world.now(machine)
    assert (machine.has(REGISTERED), machine.node_name) == (True, NODE)


async def test_a_node_that_renders_its_taints_itself_is_left_with_them(world: World) -> None:
    """LCH-39: taints that registration leaves alone."""
    machine = await launched(world)
    await world.join(machine)
    labels = {keys.DO_NOT_SYNC_TAINTS: "true"}
    await world.kube.patch(NODES, NODE, {"metadata": {"labels": labels}})
    await world.lifecycle.node_changed(NODE)
    assert (await node_now(world.kube)).taints == ()


async def test_a_node_without_boot_taint_is_told_about(world: World, events: Any) -> None:
    """LCH-73, LCH-78: pods may have landed there too early; it is registered all the same."""
    machine = await launched(world)
    await world.join(machine)
    await world.kube.patch(NODES, NODE, {"spec": {"taints": []}})
    await world.lifecycle.node_changed(NODE)
    assert ("UnregisteredTaintMissing", "default-a") in await events()
    assert (await world.now(machine)).has(REGISTERED)


async def test_a_foreign_node_is_left_alone(world: World) -> None:
    """F24: not even one with another machine's id."""
    await launched(world)
    spec = {"providerID": "aws:///us-west-2a/i-00000000000000000"}
    await world.kube.create(NODES, {"metadata": {"name": NODE}, "spec": spec})
    before = await world.kube.get(NODES, NODE)
    await world.lifecycle.node_changed(NODE)
    await world.lifecycle.node_changed("unheard-of")
    assert await world.kube.get(NODES, NODE) == before


@BOTH
async def test_a_machine_that_never_registers_is_deleted_in_time(
    world: World, events: Any, generation_api: str
) -> None:
    """LCH-76, LCH-77, F25, ACC-66: 15 minutes; it counts against the pool, once."""
    machine = await launched(world, generation_api)
    await review(world, machine)
    world.clock.advance(890)
    await review(world, machine)
    assert not await world.is_leaving(machine)
    world.clock.advance(20)
    for _ in range(2):
        await review(world, machine)
    assert await world.is_leaving(machine)
    assert ("FailedRegistration", "default-a") in await events()
    assert await world.outcomes.recent([machine.pool_key]) == {machine.pool_key: (False,)}
    labels = ("registration_timeout", "default", "", "", "forceful")
    assert world.metrics.machines_disrupted.labels(*labels)._value.get() == 1


async def test_a_short_registration_timeout_counts(world: World) -> None:
    """REGISTRATION_TIMEOUT; what was seen missing for so long is believed."""
    world.settings = read(
        LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2", registration_timeout="30s"
    )
    world.restart()
    machine = await launched(world)
    await review(world, machine)
    world.clock.advance(29)
    await review(world, machine)
    assert not await world.is_leaving(machine)
    world.clock.advance(2)
    await review(world, machine)
    assert await world.is_leaving(machine)


async def test_a_machine_without_instance_is_deleted_after_five_minutes(
    world: World, events: Any
) -> None:
    """LCH-76, ACC-66; a launch that failed says nothing of registration (LCH-77)."""
    await create_pool(world.kube)
    await create_machine(world.kube, "default-a")
    machine = await world.machines.get("default-a")
    failing = Condition("Unknown", "LaunchFailed", "no", world.clock.now() + 100)
    await world.machines.write_condition(machine, LAUNCHED, failing)
    world.clock.advance(390)
    await review(world, machine)
    assert not await world.is_leaving(machine)
    world.clock.advance(20)
    await review(world, machine)
    assert await world.is_leaving(machine)
    assert ("FailedLaunch", "default-a") in await events()
    assert await world.outcomes.recent([machine.pool_key]) == {}


async def test_a_launcher_that_was_away_registers_before_it_looks_at_the_time(world: World) -> None:
    """LCH-70: registration comes before liveness."""
    machine = await launched(world)
    await review(world, machine)
    await world.join(machine)
    world.clock.advance(10_000)
    world.restart()
    await review(world, machine)
    assert (await world.now(machine)).has(REGISTERED)
    assert not await world.is_leaving(machine)


async def test_a_wall_clock_that_jumps_ends_no_machine(world: World) -> None:
    """LCH-76: time is up by the wall clock, and not before this launcher saw the machine wait for two minutes."""
    machine = await launched(world)
    await review(world, machine)
    world.clock.wall += 3600
    world.clock.advance(119)
    await review(world, machine)
    world.restart()
    await review(world, machine)
    world.clock.advance(119)
    await review(world, machine)
    assert not await world.is_leaving(machine)
    world.clock.advance(2)
    await review(world, machine)
    assert await world.is_leaving(machine)


async def test_initialisation_never_times_out(world: World) -> None:
    """LCH-76: launch and registration timeouts; ACC-66: timeouts."""
    machine = await launched(world)
    await world.join(machine, ready=False)
    await world.lifecycle.node_changed(NODE)
    world.clock.advance(10**6)
    await review(world, machine)
    assert not await world.is_leaving(machine)


async def test_a_claim_that_expires_while_it_boots_is_not_carried_on(world: World) -> None:
    """ACC-80: deleted before its node came; the node that comes all the same is not made ready for pods."""
    machine = await launched(world, V1)
    await world.machines.delete(machine)
    await world.join(machine)
    await world.lifecycle.node_changed(NODE)
    await review(world, machine)
    assert not (await world.now(machine)).has(REGISTERED)
    taints = {taint.key for taint in (await node_now(world.kube)).taints}
    assert taints == {keys.UNREGISTERED_TAINT_KEY}


async def test_a_claim_without_pool_is_carried_all_the_way(world: World) -> None:
    """ACC-82, NC-10: written by hand; it counts for no pool."""
    machine = await world.launched("default-a", V1, PROVIDER_ID)
    await world.machines.patch(machine, {"labels": {keys.NODE_POOL: None}})
    await world.join(machine)
    for _ in range(2):  # the node changes when it is registered: that is news again
        await world.lifecycle.node_changed(NODE)
    machine = await world.now(machine)
    assert machine.pool == ""
    assert machine.has(INITIALIZED)
    assert await call(world.bus.redis, "look", "KEYS", f"{world.bus.prefix}registrations:*") == []


async def test_a_registration_ends_what_is_held_against_its_pool(world: World) -> None:
    """LCH-77, F25: three failures make the pool wait, one node that joins frees it."""
    machine = await launched(world)
    for uid in ("a", "b", "c"):
        await world.health.failed(replace(machine, uid=uid))
    assert await world.backoff.admit(machine.pool_key, "d") > 0
    await world.join(machine)
    await world.lifecycle.node_changed(NODE)
    assert await world.backoff.admit(machine.pool_key, "d") == 0
    assert await world.outcomes.recent([machine.pool_key]) == {
        machine.pool_key: (True, False, False, False)
    }


async def test_many_nodes_that_join_together_cost_few_lists(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list per node would be a million objects for a thousand nodes."""
    machines = [
        await world.launched(f"default-{letter}", provider_id=f"{PROVIDER_ID[:-1]}{letter}")
        for letter in "abcd"
    ]
    for machine in machines:
        await world.join(machine)
    lists = []
    real = world.machines.list

    async def counted() -> Any:
        lists.append(1)
        return await real()

    monkeypatch.setattr(world.machines, "list", counted)
    for machine in machines:
        await world.lifecycle.node_changed(f"node-{machine.name}")
    assert all([(await world.now(machine)).has(REGISTERED) for machine in machines])
    assert len(lists) == 1
