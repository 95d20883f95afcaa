"""The journal on a real Redis: a burst arrives, and an emptied Redis is written anew (F9, OPS-13)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from services.watcher.conversion import KINDS
from services.watcher.mirror import journal as journals
from services.watcher.mirror.journal import LARGEST_CHUNK, Journal
from shared.concurrency.clock import SystemClock
from shared.domain.records import decode_record
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.messages import LaunchMachine, PodUnschedulable
from shared.redis.mirror import MirrorReader, MirrorWriter
from tests.support.network.fault_proxy import FaultProxy
from tests.support.planning.builders import make_bound_pod, make_machine, make_node, make_pod
from tests.support.waiting import wait_until

KIND = {kind.name: kind for kind in reversed(KINDS)}  # of two generations the older


def raw(name: str, namespace: str = "default", version: int = 1) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "resourceVersion": str(version)}
    return {"metadata": {**meta, **({"namespace": namespace} if namespace else {})}}


def note(journal: Journal, kind: str, record: Any, version: int = 1) -> None:
    """As the informer does."""
    namespace = getattr(record, "namespace", "")
    journal.note(KIND[kind], raw(record.name, namespace, version), record)


@pytest.fixture
def journal(bus: Bus) -> Journal:
    return Journal(MirrorWriter(bus.redis, bus.prefix, epoch="epoch-a"), bus, SystemClock())


@pytest.fixture
def chance() -> random.Random:
    return random.Random(5)


@asynccontextmanager
async def running(journal: Journal, bus: Bus, redis_url: str) -> AsyncIterator[MirrorReader]:
    """Journal and a reader, until the end of the block."""
    reader = MirrorReader(redis_url, bus.prefix, clock=SystemClock(), block_milliseconds=20)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(journal.run(stop))
        group.create_task(reader.run(stop))
        try:
            await wait_until(lambda: reader.complete, "the first load")
            yield reader
        finally:
            stop.set()


def pods_of(reader: MirrorReader) -> dict[str, Any]:
    return {key: decode_record("pods", body) for key, body in reader.bodies("pods").items()}


async def test_a_burst_arrives_complete_and_is_announced_once(
    journal: Journal, bus: Bus, redis_url: str, published: Any
) -> None:
    """ACC-02, 400 pods at once: mirror and stream agree; a message's generation is in the mirror."""
    async with running(journal, bus, redis_url) as reader:
        for number in range(700):
            note(journal, "pods", make_pod(f"p{number:03d}"))
        await wait_until(lambda: len(reader.kinds.get("pods", {})) == 700, "700 pods")
        await wait_until(lambda: journal.backlog == 0, "an empty queue")

        async def all_told() -> bool:
            return len(await published(streams.PODS)) >= 700

        await wait_until(all_told, "700 messages")
        told = await published(streams.PODS)
        assert {m.pod for m in told} == {f"default/p{n:03d}" for n in range(700)}
        assert len(told) == 700
        assert max(m.generation for m in told) <= journal.generation
    assert pods_of(reader)["default/p007"] == make_pod("p007")


async def test_changes_before_the_first_write_are_part_of_it(
    journal: Journal, bus: Bus, redis_url: str, published: Any
) -> None:
    """The first picture is whole: what is open is announced, what is settled is not."""
    note(journal, "pods", make_pod("waits"))
    note(journal, "pods", make_bound_pod("runs", "n"))
    note(journal, "machines", make_machine("new"))
    note(journal, "machines", make_machine("old", provider_id="aws:///us-west-2a/i-1"))
    note(journal, "nodes", make_node("n"))
    async with running(journal, bus, redis_url) as reader:
        assert set(reader.kinds["pods"]) == {"default/waits", "default/runs"}
        assert set(reader.kinds["nodes"]) == {"n"}

        async def told() -> bool:
            return bool(await published(streams.LAUNCHES))

        await wait_until(told, "the machine's launch")
        assert await published(streams.LAUNCHES) == [LaunchMachine(machine="Machine/new")]
        assert [m.pod for m in await published(streams.PODS)] == ["default/waits"]


async def test_an_emptied_redis_is_written_anew_and_announced_again(
    journal: Journal, bus: Bus, redis_url: str, published: Any
) -> None:
    """F9, SVC-03: nothing but time is lost, also for what changed meanwhile."""
    async with running(journal, bus, redis_url) as reader:
        note(journal, "pods", make_pod("waits"))
        note(journal, "pods", make_pod("goes"))
        await wait_until(lambda: len(pods_of(reader)) == 2, "both pods")

        async def both_told() -> bool:
            return len(await published(streams.PODS)) == 2

        await wait_until(both_told, "both announcements")
        before = journal.generation
        await bus.redis.flushall()
        journal.note(KIND["pods"], raw("goes"), None)
        await wait_until(
            lambda: journal.begun and set(pods_of(reader)) == {"default/waits"} and reader.complete,
            "the picture anew",
        )

        async def told() -> bool:
            return bool(await published(streams.PODS))

        await wait_until(told, "the announcement")
        waiting = {m.pod for m in await published(streams.PODS) if isinstance(m, PodUnschedulable)}
        assert waiting == {"default/waits"}
        assert journal.generation > before


async def test_the_heartbeat_notices_a_lost_mirror_without_any_change(
    journal: Journal, bus: Bus, redis_url: str
) -> None:
    """F9: a quiet cluster recovers as well."""
    async with running(journal, bus, redis_url) as reader:
        note(journal, "pods", make_pod("waits"))
        await wait_until(lambda: "default/waits" in pods_of(reader), "the pod")
        await bus.redis.flushall()
        await journal.heartbeat()
        assert not journal.begun
        await wait_until(lambda: reader.complete and reader.loads >= 2, "a second load")
        assert set(pods_of(reader)) == {"default/waits"}


async def test_only_the_latest_of_many_changes_is_written(
    journal: Journal, bus: Bus, redis_url: str, published: Any
) -> None:
    """A pod that waited and was bound in one breath waited for nobody."""
    async with running(journal, bus, redis_url) as reader:
        note(journal, "pods", make_pod("p"), 1)
        note(journal, "pods", make_bound_pod("p", "n"), 2)
        await wait_until(lambda: "default/p" in pods_of(reader), "the pod")
        assert pods_of(reader)["default/p"].node_name == "n"
        note(journal, "pods", make_pod("q"), 3)
        await wait_until(lambda: "default/q" in pods_of(reader), "the other pod")
        note(journal, "pods", make_bound_pod("q", "n"), 4)
        await wait_until(lambda: pods_of(reader)["default/q"].node_name == "n", "q is bound")
        assert [m.pod for m in await published(streams.PODS)] == ["default/q"]


async def test_equal_states_are_not_written(journal: Journal) -> None:
    """A relist after a broken watch costs nothing."""
    note(journal, "pods", make_pod("p"), 1)
    assert journal.backlog == 1
    note(journal, "pods", make_pod("p"), 2)
    assert journal.backlog == 1
    assert journal.records["pods"]["default/p"] == msgspec.json.encode(make_pod("p"))
    journal.note(KIND["pods"], raw("unknown"), None)
    assert journal.backlog == 1


async def test_any_history_ends_with_equal_pictures(
    journal: Journal, bus: Bus, redis_url: str, chance: random.Random
) -> None:
    """Creates, changes and deletions at random, with an emptied Redis in the middle."""
    async with running(journal, bus, redis_url) as reader:
        expected: dict[str, Any] = {}
        for step in range(400):
            name = f"p{chance.randrange(30)}"
            if chance.random() < 0.3:
                expected.pop(f"default/{name}", None)
                journal.note(KIND["pods"], raw(name, version=step), None)
            else:
                pod = make_pod(name, labels={"step": str(step)})
                expected[f"default/{name}"] = pod
                note(journal, "pods", pod, step)
            if step == 200:
                await bus.redis.flushall()
            if step % 40 == 0:
                await asyncio.sleep(0.002)
        await journal.heartbeat()
        await wait_until(lambda: reader.complete and pods_of(reader) == expected, "equal pictures")


async def test_changes_do_not_wait_for_the_announcements_of_a_large_picture(
    journal: Journal, bus: Bus, published: Any
) -> None:
    """The change is in the mirror, and told, while most of what was there before is still unannounced."""
    for number in range(10 * LARGEST_CHUNK):
        note(journal, "pods", make_pod(f"p{number:04d}"))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(journal.run(stop))
        await wait_until(lambda: journal.begun, "the first picture", every=0.0)
        begun = journal.generation
        note(journal, "pods", make_pod("late"))
        await wait_until(lambda: journal.generation > begun, "it is in the mirror", every=0.0)
        assert journal.unannounced > 5 * LARGEST_CHUNK
        await wait_until(lambda: journal.unannounced == 0, "everything is told")
        stop.set()
    told = [m for m in await published(streams.PODS) if isinstance(m, PodUnschedulable)]
    names = [m.pod for m in told]
    assert names.index("default/late") < 3 * LARGEST_CHUNK
    assert len(names) == len(set(names)) == 10 * LARGEST_CHUNK + 1
    assert {m.generation for m in told if m.pod != "default/late"} == {begun}


async def test_what_changes_before_it_was_announced_is_announced_as_it_is(
    journal: Journal, bus: Bus, redis_url: str, published: Any
) -> None:
    """Nobody has to hear of what was in between."""
    for number in range(3 * LARGEST_CHUNK):
        note(journal, "pods", make_pod(f"p{number:04d}"))
    last, stop = f"p{3 * LARGEST_CHUNK - 1:04d}", asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(journal.run(stop))
        await wait_until(lambda: journal.begun, "the first picture", every=0.0)
        assert journal.unannounced == 3 * LARGEST_CHUNK
        note(journal, "pods", make_bound_pod(last, "n"), 2)
        await wait_until(
            lambda: journal.backlog == journal.unannounced == 0 and journal.generation > 1,
            "everything is told",
        )
        stop.set()
    told = [m.pod for m in await published(streams.PODS)]
    assert sorted(told) == [f"default/p{n:04d}" for n in range(3 * LARGEST_CHUNK - 1)]


async def test_announcements_without_an_answer_are_sent_again(
    bus: Bus, redis_url: str, published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8: half of all answers are lost; each is on the stream once in the end."""
    monkeypatch.setattr(journals, "RETRY_SECONDS", 0.01)
    port = int(redis_url.rpartition(":")[2].split("/")[0])
    cluster = bus.prefix.partition("{")[2].partition("}")[0]
    async with FaultProxy(port, loss=0.5, seed=3) as proxy:
        lossy = Bus(proxy.url, cluster, clock=SystemClock(), random=random.Random(1))
        journal = Journal(MirrorWriter(bus.redis, bus.prefix, "epoch-a"), lossy, SystemClock())
        for number in range(300):
            note(journal, "pods", make_pod(f"p{number:03d}"))
        async with running(journal, bus, redis_url):
            await wait_until(lambda: journal.begun and not journal.unannounced, "all is told")
        assert proxy.cuts > 0
        told = [m.pod for m in await published(streams.PODS)]
        assert sorted(told) == [f"default/p{number:03d}" for number in range(300)]
        await lossy.close()
