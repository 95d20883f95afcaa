"""The catalogue in Redis: read, kept, taken over, written again, and refined by what nodes tell (IT-01, IT-12).

What AWS says is scripted here; ``tests/shared/cloud/catalogue/test_building.py`` reads it from the emulator.
"""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.launcher.catalogue import read as reading_module
from services.launcher.catalogue.learned_memory import MemorySizes
from services.launcher.catalogue.publish import (
    CATALOGUE_FRESH_SECONDS,
    FAILED_READ_RETRY_SECONDS,
    PUBLISH_LEARNED_SECONDS,
    STALE_PRICES_RETRY_SECONDS,
    Catalogues,
)
from services.launcher.catalogue.read import CatalogueRequest, Encoded, read_apart
from shared.cloud.catalogue.building import generation_of, with_memory
from shared.cloud.catalogue.instance_model import ModelSettings
from shared.domain.instance_types.types import Catalogue, decode_catalogue, encode_catalogue
from shared.errors import Unauthorized, Unavailable, Unreachable
from shared.redis.bus import Bus
from shared.redis.bus.connection import call
from shared.redis.mirror.catalogue import offerings
from shared.redis.mirror.catalogue.learned_ram import LearnedMemory
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from tests.services.launcher.catalogue.test_learned_memory import SEEN, machine, node
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import REGION, make_type
from tests.support.waiting import wait_until

HOUR = 3600.0
READING = CatalogueRequest(REGION, None, ModelSettings(), "error")


class Aws:
    """Answers as a reading process does, in order; the last one again and again."""

    def __init__(self, *answers: Encoded | Exception) -> None:
        self.answers = list(answers)
        self.readings: list[CatalogueRequest] = []

    async def read(self, reading: CatalogueRequest) -> Encoded:
        self.readings.append(reading)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def catalogue(price: int = 96_000) -> Catalogue:
    types = (make_type("m5.large", price=price),)
    return Catalogue(REGION, generation_of(types), types)


def encoded(price: int = 96_000, **changes: Any) -> Encoded:
    made = catalogue(price)
    return Encoded(made.generation, 1, encode_catalogue(made), b"prices", **changes)


class World:
    """One Redis and one clock; ``start`` is a launcher's incarnation."""

    def __init__(self, bus: Bus, clock: FakeClock) -> None:
        self.bus, self.clock = bus, clock
        self.memory = MemorySizes(LearnedMemory(bus.redis, bus.prefix), clock)

    def start(self, aws: Aws) -> Catalogues:
        store = CatalogueStore(self.bus.redis, self.bus.prefix)
        return Catalogues(store, READING, self.clock, self.memory, aws.read)

    async def stored(self) -> Catalogue | None:
        """As the scheduler sees it."""
        return await CatalogueStore(self.bus.redis, self.bus.prefix).get()

    async def fresh_for(self, seconds: float) -> None:
        """As if so much were left of the time in which AWS need not be read again: Redis' clock does not jump."""
        store = CatalogueStore(self.bus.redis, self.bus.prefix)
        await store.keep_fresh(READING.fingerprint, seconds)

    async def lose_redis(self) -> None:
        await call(self.bus.redis, "lose everything", "FLUSHDB")


@pytest.fixture
def world(bus: Bus, clock: FakeClock) -> World:
    return World(bus, clock)


async def test_aws_is_read_at_the_start_and_every_twelve_hours(world: World) -> None:
    """IT-01: discovery of types."""
    aws = Aws(encoded(), encoded(97_000))
    keeper = world.start(aws)
    for seconds, readings in ((0, 1), (CATALOGUE_FRESH_SECONDS - 1, 1), (1, 2)):
        world.clock.advance(seconds)
        await keeper.update()
        assert len(aws.readings) == readings
    assert await world.stored() == catalogue(97_000)


async def test_what_redis_lost_is_written_again_with_the_prices(world: World) -> None:
    keeper = world.start(Aws(encoded()))
    await keeper.update()
    await world.lose_redis()
    await keeper.update()
    assert await world.stored() == catalogue()
    assert await keeper.store.prices() == b"prices"


async def test_a_new_launcher_serves_what_the_last_one_left_while_aws_is_silent(
    world: World,
) -> None:
    """IT-01: the catalogue survives a restart, and the outage is logged once."""
    await world.start(Aws(encoded())).update()
    await world.fresh_for(0)
    aws = Aws(Unreachable("no route"), Unreachable("no route"), encoded(97_000))
    keeper = world.start(aws)
    with capture_logs() as logs:
        await keeper.update()
        assert keeper.held is not None
        assert keeper.problem == "no route"
        world.clock.advance(FAILED_READ_RETRY_SECONDS)
        await keeper.update()
    assert len([line for line in logs if "cannot be read" in line["event"]]) == 1
    world.clock.advance(FAILED_READ_RETRY_SECONDS)
    await keeper.update()
    assert keeper.problem == ""
    assert await world.stored() == catalogue(97_000)


async def test_a_launcher_that_starts_does_not_read_what_the_last_one_has_just_read(
    world: World,
) -> None:
    """In an upgrade launchers start while pods wait for machines, and a reading takes seconds of CPU."""
    await world.start(Aws(encoded())).update()
    await world.fresh_for(HOUR)
    aws = Aws(encoded(97_000))
    keeper = world.start(aws)
    await keeper.update()
    assert not aws.readings
    assert await world.stored() == catalogue()
    world.clock.advance(HOUR - 1)
    await keeper.update()
    assert not aws.readings
    world.clock.advance(1)
    await keeper.update()
    assert await world.stored() == catalogue(97_000)


@pytest.mark.parametrize(
    "changed",
    [
        replace(READING, model=ModelSettings(reserved_enis=1)),
        replace(READING, region="us-east-1"),
        replace(READING, endpoint_url="http://127.0.0.1:1"),
    ],
    ids=["another model", "another region", "another endpoint"],
)
async def test_a_launcher_with_other_settings_reads_at_once(
    world: World, changed: CatalogueRequest
) -> None:
    await world.start(Aws(encoded())).update()
    aws = Aws(encoded(97_000))
    await replace(world.start(aws), reading=changed).update()
    assert len(aws.readings) == 1


async def test_a_launcher_that_starts_reads_prices_that_the_last_one_could_not_read(
    world: World,
) -> None:
    """Somebody who mends the rights of the role restarts the launcher."""
    await world.start(Aws(encoded(stale=("spot prices: denied",)))).update()
    aws = Aws(encoded(97_000))
    await world.start(aws).update()
    assert await world.stored() == catalogue(97_000)


async def test_only_the_first_reading_of_all_has_the_priority_of_the_launcher(
    world: World,
) -> None:
    aws = Aws(encoded(), encoded(97_000))
    keeper = world.start(aws)
    await keeper.update()
    world.clock.advance(CATALOGUE_FRESH_SECONDS)
    await keeper.update()
    assert [reading.niceness > 0 for reading in aws.readings] == [False, True]


async def test_a_catalogue_of_another_region_is_not_taken_over(world: World) -> None:
    other = Catalogue("eu-west-1", "other", ())
    await CatalogueStore(world.bus.redis, world.bus.prefix).put(encode_catalogue(other), "other")
    keeper = world.start(Aws(Unauthorized("no")))
    with pytest.raises(Unauthorized):
        await keeper.update()
    assert keeper.held is None


async def test_a_catalogue_of_another_version_does_not_keep_a_launcher_from_reading_its_own(
    world: World,
) -> None:
    await CatalogueStore(world.bus.redis, world.bus.prefix).put(b'{"region": 1}', "old", b"old")
    keeper = world.start(Aws(encoded()))
    await keeper.update()
    assert await world.stored() == catalogue()


async def test_a_reading_falls_back_on_the_last_prices_of_any_launcher(world: World) -> None:
    """IT-05: on-demand prices; IT-06: spot prices."""
    await world.start(Aws(encoded())).update()
    await world.fresh_for(0)
    aws = Aws(encoded())
    await world.start(aws).update()
    assert aws.readings[0].previous == b"prices"


async def test_prices_that_were_not_read_are_told_once_and_asked_for_sooner(world: World) -> None:
    """IT-05: on-demand prices."""
    first = encoded(stale=("spot prices: denied (request 1)",))
    again = encoded(stale=("spot prices: denied (request 2)",))
    aws = Aws(first, again, encoded(), first)
    keeper = world.start(aws)
    with capture_logs() as logs:
        for _ in range(2):
            await keeper.update()
            assert "spot prices: denied" in keeper.problem
            world.clock.advance(STALE_PRICES_RETRY_SECONDS)
        await keeper.update()
        assert keeper.problem == ""
        world.clock.advance(CATALOGUE_FRESH_SECONDS)
        await keeper.update()
    assert [line["reasons"] for line in logs if "reasons" in line] == [list(first.stale)] * 2


async def test_faults_of_single_types_are_told_by_name(world: World) -> None:
    keeper = world.start(Aws(encoded(faults=("c5.large: '-1' is no on-demand price",))))
    with capture_logs() as logs:
        await keeper.update()
    told = [line["reasons"] for line in logs if "reasons" in line]
    assert told == [["c5.large: '-1' is no on-demand price"]]
    assert keeper.problem == ""


async def test_what_nodes_tell_is_published_as_a_new_generation(world: World) -> None:
    """IT-12; at most once a minute, and the next reading has it from the start."""
    aws = Aws(encoded())
    keeper = world.start(aws)
    await keeper.update()
    await world.memory.learn(machine(), node())
    await keeper.update()
    assert await world.stored() == catalogue()
    world.clock.advance(PUBLISH_LEARNED_SECONDS)
    await keeper.update()
    stored = await world.stored()
    assert stored == with_memory(catalogue(), {"m5.large": {"ami-1": SEEN}})
    assert keeper.held is not None
    assert keeper.held.generation == stored.generation != catalogue().generation
    world.clock.advance(CATALOGUE_FRESH_SECONDS)
    await keeper.update()
    assert aws.readings[-1].learned == {"m5.large": {"ami-1": SEEN}}


async def test_the_catalogue_is_decoded_off_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop turns while 3 MB are decoded, and who comes meanwhile shares the work."""
    await world.start(Aws(encoded())).update()
    threads: list[int] = []

    def decode(body: bytes) -> Catalogue:
        threads.append(threading.get_ident())
        return decode_catalogue(body)

    monkeypatch.setattr(offerings, "decode_catalogue", decode)
    store = CatalogueStore(world.bus.redis, world.bus.prefix)
    first = await store.get()
    assert await store.get() is first
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def tell_process(reading: CatalogueRequest) -> Encoded:
    return Encoded(str(os.getpid()), 0, b"", prices=reading.previous)


def refuse(_reading: CatalogueRequest) -> Encoded:
    raise Unauthorized("may not", permission="ec2:DescribeInstanceTypes")


def die(_reading: CatalogueRequest) -> Encoded:
    os._exit(1)


def hang(reading: CatalogueRequest) -> Encoded:
    path = Path(reading.log_level)
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    threading.Event().wait()
    raise AssertionError


@pytest.mark.slow
async def test_aws_is_read_and_parsed_in_another_process() -> None:
    """Parsing cannot stall a loop that it does not share a process with."""
    found = await read_apart(tell_process, replace(READING, previous=b"before"))
    assert found.generation != str(os.getpid())
    assert found.prices == b"before"


@pytest.mark.slow
async def test_what_went_wrong_in_the_reading_process_is_raised_here() -> None:
    with pytest.raises(Unauthorized, match="may not"):
        await read_apart(refuse, READING)
    with pytest.raises(Unavailable, match="died"):
        await read_apart(die, READING)


async def test_a_reading_process_that_hangs_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reading_module, "READ_SECONDS", 0.4)
    with pytest.raises(Unavailable, match="took longer than"):
        await read_apart(hang, replace(READING, log_level=str(tmp_path / "pid")))


@pytest.mark.slow
async def test_a_launcher_that_stops_ends_the_reading_process(tmp_path: Path) -> None:
    """F29: nobody waits five minutes for a child whose answer nobody wants."""
    started = tmp_path / "pid"
    reading = asyncio.ensure_future(read_apart(hang, replace(READING, log_level=str(started))))
    await wait_until(started.exists, "the child runs")
    pid = int(started.read_text())
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the child is gone")
