"""A node that joined leaves a trace on its machine before it is registered (LCH-73, F24)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from services.watcher.conversion import KINDS
from services.watcher.mirror.journal import Journal
from services.watcher.status.machine_notes import (
    REMEMBERED_SECONDS,
    UNREGISTERED_SECONDS,
    JoinedNodes,
)
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools.generations import V1
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODE_CLAIMS
from shared.redis.bus import Bus
from shared.redis.mirror import MirrorWriter
from tests.services.conftest import create_machine, create_node_claim
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_node

ID = "aws:///us-west-2a/i-0123456789abcdef0"
OTHER_ID = "aws:///us-west-2a/i-00000000000000001"
NEW = replace(make_node("n"), provider_id=ID)
REGISTERED = replace(NEW, labels={**NEW.labels, keys.REGISTERED: "true"})


class Watcher:
    """What joined_nodes are noted and written with."""

    def __init__(self, kube: Kube, bus: Bus, clock: FakeClock) -> None:
        self.clock = clock
        self.store = Machines(kube)
        self.journal = Journal(MirrorWriter(bus.redis, bus.prefix, epoch="a"), bus, clock)
        self.joined_nodes = JoinedNodes(clock)
        self.kube = kube

    async def machine(self, kind: str = "NodeClaim", provider_id: str = ID) -> Machine:
        """One whose instance is this one, as the watch shows it."""
        make = create_node_claim if kind == "NodeClaim" else create_machine
        raw = await make(self.kube, "m")
        resource = next(one for one in KINDS if one.resource.kind == kind)
        body = {"status": {"providerID": provider_id}}
        raw = await self.kube.patch(resource.resource, "m", body, subresource="status")
        machine: Machine = resource.convert(raw).require("m")
        self.journal.note(resource, raw, machine)
        return machine

    async def told(self) -> str:
        """After a turn of the timer: what the machine says."""
        await self.joined_nodes.write(self.journal, self.store)
        (machine,) = await self.store.list()
        return machine.annotations.get(keys.JOINED_ANNOTATION, "")


@pytest.fixture
def watcher(kube: Kube, bus: Bus, clock: FakeClock) -> Watcher:
    return Watcher(kube, bus, clock)


@pytest.mark.parametrize("kind", ["Machine", "NodeClaim"])
async def test_a_node_that_is_deleted_unregistered_is_written_on_its_machine(
    watcher: Watcher, kind: str
) -> None:
    """At once, in both generations; the end may be told by nothing but a name."""
    await watcher.machine(kind)
    watcher.joined_nodes.note("n", NEW)
    assert await watcher.told() == ""
    watcher.joined_nodes.note("n", None)
    assert await watcher.told() == "n"


async def test_a_node_that_stays_unregistered_is_written_before_anybody_deletes_it(
    watcher: Watcher,
) -> None:
    """So that the trace outlives the watcher."""
    await watcher.machine()
    watcher.joined_nodes.note("n", NEW)
    watcher.clock.advance(UNREGISTERED_SECONDS)
    assert await watcher.told() == "n"


async def test_a_node_that_is_registered_in_time_costs_nothing(watcher: Watcher) -> None:
    await watcher.machine()
    watcher.joined_nodes.note("n", NEW)
    watcher.joined_nodes.note("n", REGISTERED)
    watcher.clock.advance(UNREGISTERED_SECONDS)
    watcher.joined_nodes.note("n", None)
    assert await watcher.told() == ""


@pytest.mark.parametrize("node", [replace(NEW, provider_id=""), replace(NEW, provider_id=OTHER_ID)])
async def test_a_node_of_another_machine_or_of_none_says_nothing(
    watcher: Watcher, node: Node
) -> None:
    await watcher.machine()
    watcher.joined_nodes.note("n", node)
    watcher.joined_nodes.note("n", None)
    assert await watcher.told() == ""


async def test_a_machine_that_learns_its_instance_later_is_told_too(watcher: Watcher) -> None:
    """Launches write the provider id after the call: a node may be there sooner. Not for ever."""
    watcher.joined_nodes.note("n", NEW)
    watcher.joined_nodes.note("n", None)
    await watcher.joined_nodes.write(watcher.journal, watcher.store)
    watcher.clock.advance(REMEMBERED_SECONDS / 2)
    await watcher.machine()
    assert await watcher.told() == "n"
    watcher.joined_nodes.note("n", None)
    watcher.clock.advance(REMEMBERED_SECONDS)
    await watcher.told()
    assert watcher.joined_nodes._nodes == {}


async def test_a_machine_that_is_gone_by_now_stops_nobody(watcher: Watcher, kube: Kube) -> None:
    machine = await watcher.machine()
    assert machine.generation_api == V1
    await kube.patch(NODE_CLAIMS, "m", {"metadata": {"finalizers": None}})
    await kube.delete(NODE_CLAIMS, "m")
    watcher.joined_nodes.note("n", NEW)
    watcher.joined_nodes.note("n", None)
    await watcher.joined_nodes.write(watcher.journal, watcher.store)
    assert watcher.joined_nodes._nodes == {}
