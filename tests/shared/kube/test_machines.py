"""Machines of both kinds through one door, on a real API server (MAP-01, R3, F27)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED, Condition
from shared.errors import AlreadyExists, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import MACHINES, NODE_CLAIMS, Resource
from tests.services.conftest import create_machine, create_node_claim, kube

__all__ = ["kube"]

BOTH = pytest.mark.parametrize("resource", [MACHINES, NODE_CLAIMS])
TRUE = Condition("True", "x", "", 5.0)


@pytest.fixture
async def machines(kube: Kube) -> Machines:
    """With one of each kind, of one name."""
    await create_machine(kube, "a")
    await create_node_claim(kube, "a")
    return Machines(kube)


async def test_each_is_found_by_its_key(machines: Machines) -> None:
    """MAP-01; a message of an older release names a Machine without its kind."""
    assert (await machines.get("Machine/a")).generation_api == "v1alpha5"
    assert (await machines.get("NodeClaim/a")).generation_api == "v1"
    assert (await machines.get("a")).key == "Machine/a"
    assert {machine.key for machine in await machines.list()} == {"Machine/a", "NodeClaim/a"}
    for unknown in ("NodeClaim/b", "Pod/a"):
        with pytest.raises(NotFound):
            await machines.get(unknown)


@BOTH
async def test_conditions_are_written_in_the_words_of_the_kind(
    machines: Machines, kube: Kube, resource: Resource
) -> None:
    """M-03, NC-03: Ready follows by itself."""
    machine = await machines.get(f"{resource.kind}/a")
    for name in (LAUNCHED, REGISTERED, INITIALIZED):
        assert await machines.write_condition(machine, name, TRUE)
    again = await machines.get(machine.key)
    assert all(again.has(name) for name in (LAUNCHED, REGISTERED, INITIALIZED, "Ready"))
    raw = await kube.get(resource, "a")
    prefix = "Machine" if resource is MACHINES else ""
    assert f"{prefix}Launched" in {one["type"] for one in raw["status"]["conditions"]}
    await machines.write_condition(machine, LAUNCHED, TRUE)
    assert await kube.get(resource, "a") == raw, "said already"


@BOTH
async def test_a_namesake_of_a_deleted_machine_is_never_touched(
    machines: Machines, kube: Kube, resource: Resource
) -> None:
    """R3: every write names the UID it means."""
    old = await machines.get(f"{resource.kind}/a")
    await kube.patch(resource, "a", {"metadata": {"finalizers": None}})
    assert await machines.delete(old)
    make: Any = create_machine if resource is MACHINES else create_node_claim
    new = await make(kube, "a")
    assert not await machines.delete(old)
    assert not await machines.write_condition(old, LAUNCHED, TRUE)
    assert (await kube.get(resource, "a"))["metadata"]["uid"] == new["metadata"]["uid"]
    assert not (await kube.get(resource, "a")).get("status")


async def test_a_record_that_exists_is_not_made_again(machines: Machines, kube: Kube) -> None:
    """R4: names follow from decisions."""
    raw = await kube.get(NODE_CLAIMS, "a")
    body = {key: raw[key] for key in ("apiVersion", "kind", "spec")}
    with pytest.raises(AlreadyExists):
        await machines.create({**body, "metadata": {"name": "a"}})


async def test_an_unreadable_machine_hides_no_other(kube: Kube, machines: Machines) -> None:
    """F27: it is handed over as it is to whoever must not mistake it for absent."""
    broken = {"status": {"lastPodEventTime": "yesterday"}}
    await kube.patch(NODE_CLAIMS, "a", broken, subresource="status")
    found, unreadable = await machines.list_all()
    assert [machine.key for machine in found] == ["Machine/a"]
    assert [raw["kind"] for raw in unreadable] == ["NodeClaim"]
