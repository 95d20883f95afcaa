"""Events (EVT-01 to EVT-03)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from shared.concurrency.clock import SystemClock
from shared.errors import Unavailable
from shared.kube.client import Kube
from shared.kube.recorder import QUEUE_SIZE, LocalSeenEvents, Recorder
from shared.kube.resources import CONFIG_MAPS, EVENTS
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import Cluster, eventually
from tests.support.cluster.scripted_api import ScriptedApi, answer, refusal

POD = {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "shop", "uid": "u1"}
NODE = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u2"}


def recorder(kube: Kube, **options: Any) -> Recorder:
    usual: dict[str, Any] = {"clock": SystemClock(), "random": Random(1)}
    return Recorder(kube, **(usual | options))


@asynccontextmanager
async def running(events: Recorder) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(events.run(stop))
        yield
        stop.set()


async def test_an_event_lands_beside_its_object(api: ScriptedApi, kube: Kube) -> None:
    api.others = [answer({"kind": "Event"}, 201)]
    events = recorder(kube)
    async with running(events):
        await events.publish(POD, "Normal", "Nominated", "goes to machine m1")
    (request,) = api.requests
    assert request.path == "/api/v1/namespaces/shop/events"
    assert request.body["involvedObject"] == POD
    assert request.body["source"] == {"component": "dovetail"}
    assert request.body["metadata"]["name"].startswith("web.")
    assert (request.body["type"], request.body["reason"]) == ("Normal", "Nominated")


async def test_an_event_about_a_cluster_scoped_object_lands_in_default(
    api: ScriptedApi, kube: Kube
) -> None:
    api.others = [answer({"kind": "Event"}, 201)]
    events = recorder(kube)
    async with running(events):
        await events.publish(NODE, "Warning", "FailedDraining", "x")
    assert api.requests[0].path == "/api/v1/namespaces/default/events"


async def test_the_same_event_is_written_once_in_two_minutes(
    api: ScriptedApi, kube: Kube, clock: FakeClock
) -> None:
    """EVT-01: events are not repeated."""
    api.others = [answer({"kind": "Event"}, 201)]
    events = recorder(kube, clock=clock)
    async with running(events):
        for _ in range(3):
            await events.publish(POD, "Normal", "Nominated", "same")
        await events.publish(POD, "Normal", "Nominated", "other")
        await events.publish(NODE, "Normal", "Nominated", "same")
        await eventually(lambda: events.written == 3)
        clock.advance(121)
        await events.publish(POD, "Normal", "Nominated", "same")
        await eventually(lambda: events.written == 4)


async def test_what_happens_again_is_counted_on_its_event(
    cluster: Cluster, clock: FakeClock
) -> None:
    """One line of ``kubectl get events`` for a pool that stays blocked, as client-go's recorder does it."""
    events = recorder(cluster.kube, clock=clock)
    pod = {**POD, "namespace": cluster.namespace}
    async with running(events):
        for number in range(3):
            await events.publish(pod, "Normal", "DisruptionBlocked", "same")
            await eventually(lambda: events.written == number + 1)  # noqa: B023
            clock.advance(121)
        (written,) = (await cluster.kube.list(EVENTS, cluster.namespace)).items
        assert written["count"] == 3
        assert written["firstTimestamp"] < written["lastTimestamp"]
        await cluster.kube.delete(EVENTS, written["metadata"]["name"], cluster.namespace)
        await events.publish(pod, "Normal", "DisruptionBlocked", "same")
        await eventually(lambda: events.written == 4)
    (again,) = (await cluster.kube.list(EVENTS, cluster.namespace)).items
    assert again["count"] == 1


async def test_events_that_differ_only_by_a_name_are_one(cluster: Cluster) -> None:
    """Of 50 nodes each would have an event about each node that is not ready yet: 2,500 for what is one reason."""
    node = NODE | {"name": "n-alike"}
    clock = FakeClock()
    events = recorder(cluster.kube, clock=clock)
    async with running(events):
        for other in ("a", "b"):
            text = f"waits for node {other}"
            await events.publish(node, "Normal", "Blocked", text, alike="waits for")
        await eventually(lambda: events.written == 1)
        clock.advance(121)
        await events.publish(node, "Normal", "Blocked", "waits for node c", alike="waits for")
        await eventually(lambda: events.written == 2)
    found = (await cluster.kube.list(EVENTS, "default")).items
    (one,) = [event for event in found if event["involvedObject"]["name"] == "n-alike"]
    assert (one["count"], one["message"]) == (2, "waits for node c")


async def test_services_share_the_memory(api: ScriptedApi, kube: Kube) -> None:
    """EVT-03: de-dupe is global."""
    api.others = [answer({"kind": "Event"}, 201)]
    shared = LocalSeenEvents(SystemClock())
    first, second = recorder(kube, seen=shared), recorder(kube, seen=shared)
    async with running(first):
        await first.publish(POD, "Normal", "Nominated", "same")
    async with running(second):
        await second.publish(POD, "Normal", "Nominated", "same")
    assert (first.written, second.written) == (1, 0)


async def test_an_event_is_written_when_the_shared_memory_is_away(
    api: ScriptedApi, kube: Kube
) -> None:
    class Away:
        async def first(self, key: str, seconds: float) -> bool:
            raise Unavailable("Redis is away")

        async def has(self, key: str) -> bool:
            raise Unavailable("Redis is away")

    api.others = [answer({"kind": "Event"}, 201)]
    events = recorder(kube, seen=Away())
    async with running(events):
        await events.publish(POD, "Normal", "Nominated", "x")
        await events.publish(POD, "Normal", "Nominated", "y", once="today")
    assert events.written == 2


async def test_what_is_told_once_is_named_by_its_occasion(
    api: ScriptedApi, kube: Kube, clock: FakeClock
) -> None:
    """A process that is killed and told again finds its event; another occasion is another event."""
    api.others = [answer({"kind": "Event"}, 201)]
    for occasion in ("first", "first", "second"):
        events = recorder(kube, clock=clock)
        async with running(events):
            await events.publish(POD, "Warning", "SpotInterrupted", "x", once=occasion)
    one, again, other = (request.body["metadata"]["name"] for request in api.requests)
    assert one == again != other


async def test_what_stands_already_is_told(api: ScriptedApi, kube: Kube) -> None:
    """And who has written it says so to the other services, not who is about to (EVT-03)."""
    shared = LocalSeenEvents(SystemClock())
    api.others = [refusal(409, "AlreadyExists"), answer({"kind": "Event"}, 201)]
    for _ in range(2):
        events = recorder(kube, seen=shared)
        async with running(events):
            await events.publish(POD, "Warning", "SpotInterrupted", "x", once="first")
        assert (events.written, events.failed) == (0, 0)
    assert len(api.requests) == 1


async def test_what_could_not_be_written_may_be_told_again(api: ScriptedApi, kube: Kube) -> None:
    api.others = [refusal(403, "Forbidden"), answer({"kind": "Event"}, 201)]
    events = recorder(kube, seen=LocalSeenEvents(SystemClock()))
    async with running(events):
        await events.publish(POD, "Warning", "SpotInterrupted", "x", once="first")
        await eventually(lambda: events.failed == 1)
        await events.publish(POD, "Warning", "SpotInterrupted", "x", once="first")
        await eventually(lambda: events.written == 1)


async def test_a_refused_event_harms_nobody(api: ScriptedApi, kube: Kube) -> None:
    api.others = [refusal(403, "Forbidden"), answer({"kind": "Event"}, 201)]
    events = recorder(kube)
    async with running(events):
        await events.publish(POD, "Normal", "Nominated", "x")
        await events.publish(POD, "Normal", "Nominated", "y")
        await eventually(lambda: events.written == 1)
    assert events.failed == 1


async def test_warnings_do_not_wait_behind_good_news(api: ScriptedApi, kube: Kube) -> None:
    """400 pods that got a place must not hold up the one that has none (SCH-110)."""
    api.others = [answer({"kind": "Event"}, 201)]
    events = recorder(kube)
    await events.publish(POD, "Normal", "Nominated", "goes to machine m1")
    await events.publish(NODE, "Warning", "FailedDraining", "first")
    await events.publish(POD, "Warning", "FailedScheduling", "second")
    async with running(events):
        pass
    reasons = [request.body["reason"] for request in api.requests]
    assert reasons == ["FailedDraining", "FailedScheduling", "Nominated"]


async def test_a_full_queue_drops_and_counts(kube: Kube) -> None:
    events = recorder(kube)
    for number in range(QUEUE_SIZE + 5):
        await events.publish(POD, "Normal", "Nominated", str(number))
    assert events.dropped == 5


async def test_the_memory_is_bounded(clock: FakeClock) -> None:
    seen = LocalSeenEvents(clock, size=2)
    assert [await seen.first(key, 60) for key in "abca"] == [True, True, True, True]
    assert not await seen.first("c", 60)


async def test_a_real_api_server_takes_the_event(cluster: Cluster) -> None:
    here = cluster.namespace
    target = await cluster.kube.create(CONFIG_MAPS, {"metadata": {"name": "web"}}, here)
    about = {"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "namespace": here}
    events = recorder(cluster.kube)
    async with running(events):
        await events.publish(
            about | {"uid": target["metadata"]["uid"]}, "Normal", "Nominated", "goes to m1"
        )
    found = await cluster.kube.list(EVENTS, here, field_selector="involvedObject.name=web")
    assert [item["reason"] for item in found.items] == ["Nominated"]
