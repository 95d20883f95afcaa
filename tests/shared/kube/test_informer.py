"""The informer against the faults of F15: the caller ends up knowing what the server does (I8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import SystemClock
from shared.errors import Unavailable, Unreachable
from shared.kube.client import Kube
from shared.kube.informer import (
    UNREACHABLE_SECONDS,
    Deleted,
    Event,
    Informer,
    Key,
    Put,
    compare_versions,
    key_of,
    pause_after,
)
from shared.kube.resources import CONFIG_MAPS, PODS
from shared.kube.transport.connection import Timeouts
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import Cluster, connect, eventually, write_kubeconfig
from tests.support.cluster.scripted_api import (
    EXPIRED,
    ScriptedApi,
    bookmark,
    event,
    page,
    pod,
    refusal,
    scripted_api,
    stream,
)


@dataclass
class View:
    """What a caller builds from the events."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    namespace: str = "default"
    """Objects elsewhere are left out."""

    async def take(self, event: Event) -> None:
        if (
            self.namespace
            != (key_of(event.object) if isinstance(event, Put) else event.key).namespace
        ):
            return
        if self.failures:
            raise self.failures.pop()
        if isinstance(event, Deleted):
            name = event.key.name
            self.log.append(("deleted", name))
            assert self.objects.pop(name)["metadata"]["uid"] == event.uid
        else:
            name, known = event.object["metadata"]["name"], self.objects
            self.log.append(("changed" if name in known else "new", name))
            known[name] = event.object

    def versions(self) -> dict[str, str]:
        return {name: body["metadata"]["resourceVersion"] for name, body in self.objects.items()}


@asynccontextmanager
async def informing(kube: Kube, view: View, **options: Any) -> AsyncIterator[Informer]:
    """A running informer."""
    stop = asyncio.Event()
    chosen: dict[str, Any] = {"resource": PODS, "clock": SystemClock(), "first_backoff": 0.001}
    informer = Informer(kube, on_event=view.take, random=Random(3), **(chosen | options))
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run(stop))
        try:
            yield informer
        finally:
            stop.set()


async def test_a_list_becomes_added_and_a_watch_follows_it(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [page([pod("a", 1)], 5, "next"), page([pod("b", 2)], 5)]
    api.watches = [
        stream(event("MODIFIED", pod("a", 6)), event("DELETED", pod("b", 7)), bookmark(9))
    ]
    view = View()
    async with informing(kube, view) as informer:
        await informer.synced.wait()
        await eventually(lambda: len(view.log) == 4)
    assert view.log == [("new", "a"), ("new", "b"), ("changed", "a"), ("deleted", "b")]
    watch = api.queries(watch=True)[0]
    assert watch["resourceVersion"] == "5"
    assert watch["allowWatchBookmarks"] == "true"
    assert 240 <= int(watch["timeoutSeconds"]) <= 480


@pytest.mark.parametrize(
    "fault",
    [
        stream(then="end"),
        stream(event("MODIFIED", pod("a", 6))[:25], then="end"),
        stream(event("MODIFIED", pod("a", 6))[:25], then="abort"),
        stream(then="hang"),
        refusal(500, "InternalError"),
        refusal(429, "TooManyRequests", Retry_After="0.01"),
    ],
    ids=["EOF", "half line", "cut", "silence", "500", "429"],
)
async def test_a_broken_watch_resumes_where_it_was(
    api: ScriptedApi, kube: Kube, fault: Any
) -> None:
    api.lists = [page([pod("a", 1)], 5)]
    api.watches = [fault, stream(event("MODIFIED", pod("a", 6)), bookmark(7))]
    view = View()
    async with informing(kube, view):
        await eventually(lambda: len(view.log) == 2)
    assert view.log == [("new", "a"), ("changed", "a")]
    # A list, the watch that broke, and its resumption; no list in between.
    asked = [(seen.query.get("watch"), seen.query.get("resourceVersion")) for seen in api.requests]
    assert asked[:3] == [(None, None), ("true", "5"), ("true", "5")]


def test_while_nobody_answers_it_asks_every_few_seconds() -> None:
    """The end of a gap is seen soon; a server that answers with errors is asked less and less often."""
    backoff = Backoff(Random(1))
    gap = [pause_after(Unreachable("no answer"), backoff) for _ in range(20)]
    assert max(gap) == UNREACHABLE_SECONDS
    assert pause_after(Unavailable("overloaded"), backoff) > 3 * UNREACHABLE_SECONDS


async def test_it_is_unsound_since_the_watch_was_last_open(api: ScriptedApi, kube: Kube) -> None:
    """Failed attempts to open it again do not make the gap look shorter."""
    clock = FakeClock()
    api.lists = [page([pod("a", 1)], 5)]
    api.watches = [stream(then="end"), refusal(500, "InternalError")]
    async with informing(kube, View(), clock=clock) as informer:
        await eventually(lambda: len(api.queries(watch=True)) > 1 and not informer.sound)
        clock.advance(7.0)
        seen = len(api.queries(watch=True))
        await eventually(lambda: len(api.queries(watch=True)) > seen + 1)
        assert informer.unsound_seconds() >= 7.0


@pytest.mark.parametrize(
    "fault",
    [refusal(410, "Expired"), stream(EXPIRED), stream(bookmark(3))],
    ids=["410 at open", "410 in the stream", "server went back"],
)
async def test_a_lost_position_lists_again_and_finds_deletions(
    api: ScriptedApi, kube: Kube, fault: Any
) -> None:
    api.lists = [page([pod("a", 1), pod("b", 2)], 5), page([pod("b", 8)], 9)]
    api.watches = [fault, stream(bookmark(9))]
    view = View()
    async with informing(kube, view) as informer:
        await eventually(lambda: informer.position == "9")
        assert informer.restarts == 1
        assert informer.last_error is None
    assert view.log[2:] == [("changed", "b"), ("deleted", "a")]


async def test_three_broken_watches_in_a_row_list_again(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [page([pod("a", 1)], 5)]
    api.watches = [*[refusal(500, "InternalError")] * 3, stream(bookmark(6))]
    view = View()
    async with informing(kube, view) as informer:
        await eventually(lambda: informer.position == "6")
        assert informer.restarts == 1
    assert view.log == [("new", "a")]


async def test_a_list_that_expires_between_pages_starts_again(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [
        page([pod("a", 1)], 5, "next"),
        refusal(410, "Expired"),
        page([pod("b", 6)], 7),
    ]
    api.watches = [stream(bookmark(8))]
    view = View()
    async with informing(kube, view) as informer:
        await informer.synced.wait()
    assert view.log == [("new", "a"), ("new", "b"), ("deleted", "a")]


async def test_duplicated_and_late_events_are_dropped(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [page([pod("a", 4)], 5)]
    twice = event("MODIFIED", pod("a", 7))
    late = event("MODIFIED", pod("a", 6))
    gone = event("DELETED", pod("a", 8))
    old = event("ADDED", pod("a", 4))
    api.watches = [stream(old, twice, twice, late, gone, gone, twice, bookmark(9))]
    view = View()
    async with informing(kube, view) as informer:
        await eventually(lambda: informer.position == "9")
    assert view.log == [("new", "a"), ("changed", "a"), ("deleted", "a")]


async def test_a_new_object_under_an_old_name_is_a_deletion_and_an_addition(
    api: ScriptedApi, kube: Kube
) -> None:
    api.lists = [page([pod("a", 1)], 5), page([pod("a", 8, uid="other")], 9)]
    api.watches = [stream(EXPIRED), stream(bookmark(9))]
    view = View()
    async with informing(kube, view) as informer:
        await eventually(lambda: informer.position == "9")
    assert view.log == [("new", "a"), ("deleted", "a"), ("new", "a")]


async def test_an_event_that_the_caller_could_not_take_comes_again(
    api: ScriptedApi, kube: Kube
) -> None:
    api.lists = [page([pod("a", 1)], 5)]
    api.watches = [stream(bookmark(6))]
    view = View(failures=[Unavailable("Redis is away")])
    async with informing(kube, view) as informer:
        await informer.synced.wait()
    assert view.log == [("new", "a")]


async def test_a_bug_in_the_caller_is_raised(api: ScriptedApi, kube: Kube) -> None:
    """R8: a swallowed exception is a dead controller."""
    api.lists = [page([pod("a", 1)], 5)]
    informer = Informer(
        kube,
        PODS,
        on_event=View(failures=[ZeroDivisionError()]).take,
        clock=SystemClock(),
        random=Random(1),
    )
    with pytest.raises(ZeroDivisionError):
        await informer.run(asyncio.Event())


async def test_doubted_objects_are_handed_over_again_as_they_are(
    api: ScriptedApi, kube: Kube
) -> None:
    """For a caller whose picture is wrong: of an object that is known, and of one that is not."""
    api.lists = [page([pod("a", 1), pod("b", 2)], 5)]
    api.watches = [stream(bookmark(6))]
    view = View(objects={"ghost": pod("ghost", 3)})
    async with informing(kube, view) as informer:
        await informer.synced.wait()
        informer.report_again({Key("default", "a"): "uid-a", Key("default", "ghost"): "uid-ghost"})
        await eventually(lambda: ("deleted", "ghost") in view.log)
        assert {key.name: known.version for key, known in informer.known.items()} == {
            "a": "1",
            "b": "2",
        }
    assert view.log == [("new", "a"), ("new", "b"), ("changed", "a"), ("deleted", "ghost")]


async def test_a_deletion_tells_who_it_was_and_its_last_version(
    api: ScriptedApi, kube: Kube
) -> None:
    """Also one that was missed, of which nobody can show more."""
    seen: list[Event] = []

    async def take(event: Event) -> None:
        seen.append(event)

    api.lists = [page([pod("a", 1), pod("b", 2)], 5), page([], 9)]
    api.watches = [stream(event("DELETED", pod("b", 7)), EXPIRED), stream(bookmark(9))]
    informer = Informer(
        kube, PODS, on_event=take, clock=SystemClock(), random=Random(1), first_backoff=0.001
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run(stop))
        await eventually(lambda: len(seen) == 4)
        stop.set()
    assert seen[2:] == [
        Deleted(Key("default", "b"), "uid-b", "7"),
        Deleted(Key("default", "a"), "uid-a", "1"),
    ]


async def test_missing_rights_are_shown_and_waited_out(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [refusal(403, "Forbidden"), page([], 1)]
    api.watches = [stream(bookmark(2))]
    async with informing(kube, View(), first_backoff=0.05) as informer:
        await eventually(lambda: informer.last_error is not None)
        assert "grant verb" in str(informer.last_error)
        await informer.synced.wait()
        assert informer.last_error is None


async def test_any_byte_is_progress(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [page([], 5)]
    api.watches = [stream(b"\n")]
    async with informing(kube, View()) as informer:
        await informer.synced.wait()
        listed = informer.last_progress
        await eventually(lambda: informer.last_progress > listed)


async def test_a_list_that_fails_is_no_progress(api: ScriptedApi, kube: Kube) -> None:
    """A first page proves nothing: the list may fail on the second for ever."""
    api.lists = [page([pod("a", 1)], 5, "next"), refusal(410, "Expired")] * 3
    async with informing(kube, View()) as informer:
        await eventually(lambda: informer.restarts >= 2)
        assert informer.last_progress == -inf
        assert not informer.synced.is_set()


async def test_it_is_sound_only_while_its_watch_is_open(api: ScriptedApi, kube: Kube) -> None:
    """From the moment of a break until the watch is open again nobody knows what happens."""
    broken, mended = asyncio.Event(), asyncio.Event()

    async def until_broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(event("MODIFIED", pod("a", 6)))
        await broken.wait()
        return response

    async def after_mending(request: web.Request) -> web.StreamResponse:
        await mended.wait()
        return await stream(bookmark(9))(request)

    api.lists = [page([pod("a", 1)], 5)]
    api.watches = [until_broken, after_mending]
    async with informing(kube, View()) as informer:
        assert (informer.position, informer.sound) == ("", False)
        await eventually(lambda: informer.position == "6")
        assert informer.sound
        assert informer.unsound_seconds() == 0.0
        broken.set()
        await eventually(lambda: not informer.sound)
        assert informer.position == "6"
        await eventually(lambda: informer.unsound_seconds() > 0.01)
        mended.set()
        await eventually(lambda: informer.position == "9")
        assert informer.sound


async def test_an_event_that_was_not_taken_moves_no_position(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [page([pod("a", 1)], 5)]
    api.watches = [stream(event("MODIFIED", pod("a", 6)))]
    view = View()
    async with informing(kube, view, first_backoff=60) as informer:
        await informer.synced.wait()
        view.failures = [Unavailable("Redis is away")]
        await eventually(lambda: informer.last_error is not None)
        assert (informer.position, informer.sound) == ("5", False)


async def test_it_follows_a_real_api_server(cluster: Cluster) -> None:
    here = cluster.namespace
    view = View(namespace=here)

    async def put(name: str) -> None:
        await cluster.kube.create(CONFIG_MAPS, {"metadata": {"name": name}}, here)

    for name in ("a", "b", "c"):
        await put(name)
    async with informing(cluster.kube, view, resource=CONFIG_MAPS) as informer:
        await informer.synced.wait()
        await cluster.kube.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, here)
        await cluster.kube.delete(CONFIG_MAPS, "b", here)
        await put("d")
        await eventually(lambda: ("new", "d") in view.log)
    listed = await cluster.kube.list(CONFIG_MAPS, here)
    assert view.versions() == {
        item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed.items
    }


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [("5", "5", 0), ("9", "10", -1), ("10", "9", 1), ("abc", "abd", 1), ("5", "", 1)],
)
def test_versions_compare_as_numbers(left: str, right: str, order: int) -> None:
    assert compare_versions(left, right) == order


# A server with a memory that breaks every watch in some way, and forgets history when told to.

FAULTS = st.sampled_from(["410 open", "410 stream", "end", "half", "abort", "500", "duplicate"])
CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=4)


class ForgetfulServer:
    """Objects and their history; each watch applies the next changes and then fails as told."""

    def __init__(self, script: list[tuple[list[tuple[str, bool]], str]]) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 1
        self.history: list[tuple[int, bytes]] = []
        self.script = script

    def change(self, name: str, keep: bool) -> None:
        """Create or update ``name``, or delete it."""
        old = self.objects.pop(name, None)
        if old is None and not keep:
            return
        self.version += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self.version}"
        body = pod(name, self.version, uid)
        kind = ("MODIFIED" if old else "ADDED") if keep else "DELETED"
        if keep:
            self.objects[name] = body
        self.history.append((self.version, event(kind, body)))

    async def list(self, request: web.Request) -> web.StreamResponse:
        return await page(list(self.objects.values()), self.version)(request)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        changes, fault = self.script.pop(0) if self.script else ([], "none")
        for name, keep in changes:
            self.change(name, keep)
        lines = [line for version, line in self.history if version > since]
        if fault == "410 open":
            return await refusal(410, "Expired")(request)
        if fault == "500":
            return await refusal(500, "InternalError")(request)
        if fault == "410 stream":
            return await stream(EXPIRED)(request)
        if fault == "half":
            return await stream(b"".join(lines)[:-20], then="end")(request)
        if fault == "duplicate":
            lines = [line for line in lines for _ in range(2)] + lines[:1]
        then = {"end": "end", "duplicate": "end", "abort": "abort"}.get(fault, "hang")
        return await stream(*lines, bookmark(self.version), then=then)(request)

    def versions(self) -> dict[str, str]:
        return {name: body["metadata"]["resourceVersion"] for name, body in self.objects.items()}


@pytest.mark.slow
@pytest.mark.timeout(600)
@given(st.lists(st.tuples(CHANGES, FAULTS), max_size=8))
async def test_any_row_of_faults_ends_with_the_servers_state(
    script: list[tuple[list[tuple[str, bool]], str]],
) -> None:
    """F15: a broken or silent watch; I8: the mirror equals the server."""
    server, view = ForgetfulServer(list(script)), View()
    with TemporaryDirectory() as folder:
        async with scripted_api() as api:
            api.lists, api.watches = [server.list], [server.watch]
            config = write_kubeconfig(Path(folder) / "kubeconfig", api.url)
            kube = await connect(config, Timeouts(watch_silence=5))
            async with informing(kube, view):
                await eventually(lambda: not server.script and view.versions() == server.versions())
            await kube.close()
