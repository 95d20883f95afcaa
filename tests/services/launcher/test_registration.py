"""From launched to initialised on a real API server (LCH-70..LCH-77)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from services.launcher.registration import Registration
from shared import streams
from shared.api.machines import parse_machine
from shared.api.nodes import parse_node
from shared.domain import labels as keys
from shared.domain.machines import INITIALIZED, REGISTERED, Machine
from shared.domain.nodes import Node
from shared.kube.client import Kube
from shared.kube.resources import MACHINES, NODES
from shared.messages import MachineInitialized, MachineRegistered
from tests.services.conftest import create_machine, create_pool
from tests.services.launcher.conftest import Launcher
from tests.support.fake_clock import FakeClock

NAME = "default-a"
STARTUP = {"key": "example.com/boot", "effect": "NoExecute"}


@pytest.fixture
async def registration(start: Callable[[], Launcher], kube: Kube) -> Registration:
    """With a launched Machine that has a taint and a startup taint."""
    launcher = start()
    await create_pool(kube)
    taints = [{"key": "special", "value": "x", "effect": "NoSchedule"}]
    await create_machine(kube, NAME, taints=taints, startupTaints=[STARTUP])
    await launcher.launch.launch(NAME)
    return launcher.registration


async def machine_now(kube: Kube) -> Machine:
    return parse_machine(await kube.get(MACHINES, NAME))


async def node_now(kube: Kube) -> Node:
    return parse_node(await kube.get(NODES, "node-1"))


async def join(kube: Kube, *, boot_taint: bool = True) -> None:
    """What the kubelet writes when it comes up."""
    taints = [{"key": keys.UNREGISTERED_TAINT_KEY, "effect": "NoExecute"}] if boot_taint else []
    spec = {"providerID": (await machine_now(kube)).provider_id, "taints": taints}
    await kube.create(NODES, {"metadata": {"name": "node-1"}, "spec": spec})


async def become_ready(kube: Kube, **size: str) -> None:
    resources = {"cpu": "2", "memory": "8Gi", "pods": "29", **size}
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "capacity": resources,
        "allocatable": resources,
    }
    await kube.patch(NODES, "node-1", {"status": status}, subresource="status")


async def test_a_node_that_joins_is_registered(
    registration: Registration, kube: Kube, published: Any
) -> None:
    """LCH-73, LCH-74, M-05, M-06: labels, taints, finalizer and owner, and the Machine knows its node."""
    await join(kube)
    await registration.node_changed("node-1")
    raw, node = await kube.get(NODES, "node-1"), await node_now(kube)
    machine = await machine_now(kube)
    assert node.labels[keys.REGISTERED] == "true"
    assert node.labels[keys.PROVISIONER_NAME] == "default"
    assert node.labels[keys.INSTANCE_TYPE] == "m5.large"
    assert node.finalizers == (keys.FINALIZER,)
    ours = {(t.key, t.effect) for t in node.taints}
    assert {("special", "NoSchedule"), (STARTUP["key"], STARTUP["effect"])} <= ours
    assert keys.UNREGISTERED_TAINT_KEY not in {key for key, _ in ours}
    (owner,) = raw["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["blockOwnerDeletion"]) == (
        "Machine",
        machine.uid,
        True,
    )
    assert machine.has(REGISTERED)
    assert machine.node_name == "node-1"
    assert MachineRegistered(machine=f"Machine/{NAME}") in await published(streams.MACHINES)


async def test_a_node_is_initialised_once_nothing_is_missing(
    registration: Registration, kube: Kube, published: Any
) -> None:
    """LCH-75: ready, without startup taints, with its resources; then the Machine is Ready (M-03)."""
    await join(kube)
    await registration.node_changed("node-1")
    await registration.node_changed("node-1")
    assert "not ready" in (await machine_now(kube)).conditions[INITIALIZED].message
    await become_ready(kube)
    await registration.node_changed("node-1")
    assert "startup taint" in (await machine_now(kube)).conditions[INITIALIZED].message
    await kube.patch(NODES, "node-1", {"spec": {"taints": []}})
    await registration.node_changed("node-1")
    machine = await machine_now(kube)
    assert machine.has(INITIALIZED)
    assert machine.has("Ready")
    assert (await node_now(kube)).is_initialized
    assert MachineInitialized(machine=f"Machine/{NAME}") in await published(streams.MACHINES)
    before = await kube.get(MACHINES, NAME)
    await registration.node_changed("node-1")
    assert await kube.get(MACHINES, NAME) == before, "settled: nothing more is written"


async def test_the_timed_look_does_the_same_without_messages(
    registration: Registration, kube: Kube
) -> None:
    """R2."""
    assert await registration.review([await machine_now(kube)], []) == 0
    assert (await machine_now(kube)).conditions[REGISTERED].reason == "NodeNotFound"
    await join(kube)
    await become_ready(kube)
    assert await registration.review([await machine_now(kube)], [await node_now(kube)]) == 1
    assert (await machine_now(kube)).has(REGISTERED)


async def test_a_node_without_boot_taint_is_told_about(
    registration: Registration, kube: Kube, events: Any
) -> None:
    """LCH-73: pods may have landed there too early; it is registered all the same."""
    await join(kube, boot_taint=False)
    await registration.node_changed("node-1")
    assert ("UnregisteredTaintMissing", NAME) in await events()
    assert (await machine_now(kube)).has(REGISTERED)


async def test_a_foreign_node_is_left_alone(registration: Registration, kube: Kube) -> None:
    """F24: not even one with another machine's id."""
    spec = {"providerID": "aws:///us-west-2a/i-00000000000000000"}
    await kube.create(NODES, {"metadata": {"name": "node-1"}, "spec": spec})
    before = await kube.get(NODES, "node-1")
    await registration.node_changed("node-1")
    await registration.node_changed("unheard-of")
    assert await kube.get(NODES, "node-1") == before


async def test_a_machine_that_never_registers_is_deleted_in_time(
    registration: Registration, kube: Kube, clock: FakeClock, events: Any
) -> None:
    """LCH-76, scenario 66: 15 minutes."""
    clock.advance(890)
    await registration.review([await machine_now(kube)], [])
    assert not (await machine_now(kube)).terminating
    clock.advance(20)
    await registration.review([await machine_now(kube)], [])
    assert (await machine_now(kube)).terminating
    assert ("FailedRegistration", NAME) in await events()
