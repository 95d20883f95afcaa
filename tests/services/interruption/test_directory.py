"""Whose instance it is: an index that follows the mirror (INT-07)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from services.interruption.directory import KINDS, Directory
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodePool
from shared.errors import Unavailable
from shared.redis.mirror import Change, MirrorReader
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_machine, make_node, make_pool

INSTANCE, OTHER = "i-0000000000000000a", "i-0000000000000000b"
PROVIDED = {"provider_id": f"aws:///us-west-2a/{INSTANCE}"}
MACHINE = make_machine("m", **PROVIDED)


class Listing:
    """Where the API server is asked; ``machines`` None: it is away."""

    def __init__(self, machines: list[Machine] | None = None) -> None:
        self.machines, self.asked = machines, 0

    async def list(self) -> list[Machine]:
        self.asked += 1
        if self.machines is None:
            raise Unavailable("the API server is away")
        return self.machines


class Mirror:
    """A directory and the mirror it follows."""

    def __init__(self, listing: Listing) -> None:
        self.clock = FakeClock(wall=0.0)
        self.pools: dict[str, NodePool] = {}
        self.pools_asked: list[str] = []
        self.directory = Directory(listing, self.clock, self.pool)  # type: ignore[arg-type]
        self.reader = MirrorReader("redis://nowhere.invalid", "t", clock=self.clock, kinds=KINDS)
        self.directory.reader = self.reader

    async def pool(self, key: str) -> NodePool | None:
        self.pools_asked.append(key)
        return self.pools.get(key)

    def put(self, kind: str, key: str, record: Any) -> None:
        body = None if record is None else msgspec.json.encode(record)
        if body is None:
            self.reader.kinds[kind].pop(key, None)
        else:
            self.reader.kinds[kind][key] = body
        self.directory.note(Change(kind, key, body))

    def trust(self) -> None:
        self.reader.complete = True
        self.reader._heartbeat_at = self.clock.monotonic()


@pytest.fixture
def listing() -> Listing:
    return Listing()


@pytest.fixture
def mirror(listing: Listing) -> Mirror:
    found = Mirror(listing)
    found.trust()
    return found


async def test_a_machine_and_its_node_are_found_by_their_instance(mirror: Mirror) -> None:
    assert await mirror.directory.machine(INSTANCE) is None
    mirror.put("machines", MACHINE.key, MACHINE)
    assert mirror.directory.node(INSTANCE) is None
    node = make_node("n", **PROVIDED)
    mirror.put("nodes", "n", node)
    assert await mirror.directory.machine(INSTANCE) == MACHINE
    assert mirror.directory.node(INSTANCE) == node
    assert mirror.directory.count([INSTANCE, OTHER]) == 1


async def test_the_index_follows_changes_and_deletions(mirror: Mirror) -> None:
    """A machine gets its instance late; it may be gone when the notice comes."""
    mirror.put("machines", MACHINE.key, replace(MACHINE, provider_id=""))
    assert await mirror.directory.machine(INSTANCE) is None
    mirror.put("machines", MACHINE.key, MACHINE)
    mirror.put("machines", MACHINE.key, replace(MACHINE, terminating=True))
    found = await mirror.directory.machine(INSTANCE)
    assert found is not None
    assert found.terminating
    mirror.put("machines", MACHINE.key, None)
    assert await mirror.directory.machine(INSTANCE) is None
    assert mirror.directory.count([INSTANCE]) == 0


async def test_a_successor_with_the_same_instance_survives_the_end_of_the_first(
    mirror: Mirror,
) -> None:
    """Changes of two objects may come in either order."""
    second = replace(MACHINE, name="second")
    mirror.put("machines", MACHINE.key, MACHINE)
    mirror.put("machines", second.key, second)
    mirror.put("machines", MACHINE.key, None)
    assert await mirror.directory.machine(INSTANCE) == second


async def test_a_record_of_another_version_is_looked_up(mirror: Mirror, listing: Listing) -> None:
    """F30: it must not stop the mirror, and its instance is ours all the same."""
    listing.machines = [MACHINE]
    mirror.put("machines", "Machine/odd", {"provider_id": 5})
    mirror.put("machines", "Machine/new", {"name": 5, **PROVIDED})
    found = await mirror.directory.machine(INSTANCE)
    assert found is not None
    assert found.key == MACHINE.key


async def test_a_mirror_in_good_health_proves_an_instance_foreign(
    mirror: Mirror, listing: Listing
) -> None:
    assert await mirror.directory.machine(OTHER) is None
    assert listing.asked == 0


async def test_a_silent_mirror_still_finds_what_it_knows_and_proves_nothing_else(
    mirror: Mirror, listing: Listing
) -> None:
    """Redis or the watcher is away: list, at most every five seconds; without an answer nobody can tell."""
    mirror.put("machines", MACHINE.key, MACHINE)
    mirror.clock.advance(11)
    assert await mirror.directory.machine(INSTANCE) == MACHINE
    assert listing.asked == 0
    with pytest.raises(Unavailable):
        await mirror.directory.machine(OTHER)
    listing.machines = [replace(MACHINE, provider_id=f"aws:///us-west-2a/{OTHER}")]
    found = [await mirror.directory.machine(name) for name in (OTHER, "i-foreign", OTHER)]
    assert [one is not None for one in found] == [True, False, True]
    assert listing.asked == 2
    mirror.clock.advance(6)
    await mirror.directory.machine(OTHER)
    assert listing.asked == 3


async def test_a_pool_is_read_from_the_mirror_and_else_from_the_api_server(mirror: Mirror) -> None:
    """A pool that wants no drain must not get one because Redis is away."""
    pool = make_pool(MACHINE.pool, interruption="cordon")
    assert await mirror.directory.pool(MACHINE) is None
    mirror.put("nodepools", pool.key, pool)
    assert await mirror.directory.pool(MACHINE) == pool
    mirror.put("nodepools", pool.key, None)
    mirror.reader.complete = False
    mirror.pools[pool.key] = pool
    for _ in range(3):
        assert await mirror.directory.pool(MACHINE) == pool
    assert mirror.pools_asked == [pool.key]
    assert await mirror.directory.pool(replace(MACHINE, pool="")) is None


def test_machines_that_wait_for_an_event_are_known(mirror: Mirror) -> None:
    waiting = replace(
        MACHINE, annotations={"dovetail.sh/maintenance": "2027-01-27T06:00:00Z sqs -"}
    )
    mirror.put("machines", MACHINE.key, waiting)
    assert mirror.directory.scheduled() == [(INSTANCE, waiting)]
    mirror.put("machines", MACHINE.key, MACHINE)
    assert mirror.directory.scheduled() == []
