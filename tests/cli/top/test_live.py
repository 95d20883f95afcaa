"""The live picture against a small console on a real socket: changes, breaks, reconnection."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
from rich.console import Console

from cli.top.client import Address, report, updates
from cli.top.live import Drawing, Latest, watch
from cli.top.state import Lost
from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import SystemClock
from shared.errors import DovetailError, Unauthorized
from tests.cli.top.small_console import (
    AT,
    DECISIONS,
    WHOLE,
    Answer,
    SmallConsole,
    change,
    document,
    event,
    node,
    opened,
    refused,
    serving,
    snapshot,
)
from tests.support.waiting import wait_until

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Watched:
    """A live picture. ``file`` holds what was drawn last."""

    def __init__(self, latest: Latest, stop: asyncio.Event) -> None:
        self.latest, self.stop = latest, stop
        self.file = io.StringIO()
        self.terminal = Console(file=self.file, width=120, height=30, force_terminal=True)
        self.drawing = Drawing(self.terminal, latest, "pool")

    def draw(self) -> None:
        self.file.truncate(0)
        self.drawing.draw()

    def shows(self, text: str) -> Callable[[], bool]:
        return lambda: text in COLOURS.sub("", self.file.getvalue())


@asynccontextmanager
async def watching(console: SmallConsole) -> AsyncIterator[Watched]:
    """``dovetail top`` without its process: only the pauses before another attempt are shorter."""
    watched = Watched(Latest(SystemClock()), asyncio.Event())
    address = Address(console.url, "secret")
    stream, fetch = updates(address, Backoff(None, first=0.01, cap=0.02)), partial(report, address)
    async with asyncio.TaskGroup() as tasks:
        with watched.drawing.live:
            tasks.create_task(watch(watched.latest, stream, fetch, watched.stop, watched.draw))
            yield watched
            watched.stop.set()


async def test_a_change_is_drawn() -> None:
    put = change(put={"nodes": [node("new", state="launching", name="")], "pods": []})
    unknown = event("fireworks", {"id": "r-2"}) + b": comment\n\n"
    with serving(refused(404), opened(WHOLE + unknown + event("change", put))) as console:
        async with watching(console) as watched:
            await wait_until(watched.shows("default-new"), "the new node is shown")
            await wait_until(watched.shows("live"), "it is connected")
    assert console.seen == [("/api/stream", "", "Bearer secret")]


async def test_a_broken_stream_continues_after_the_last_event() -> None:
    """With 503 between: the picture stays, the changes that were missed come, and the id is the last one heard."""
    missed = change(id="r-3", gone={"nodes": [node("b")["id"]], "pods": []})
    streams = (
        Answer(WHOLE + event("change", change())),
        refused(503),
        opened(event("change", missed)),
    )
    with serving(refused(404), *streams) as console:
        async with watching(console) as watched:
            await wait_until(lambda: len(console.seen) == 3, "it connects again")
            await wait_until(watched.shows("1 node "), "the change that was missed is shown")
    assert [seen[1] for seen in console.seen] == ["", "r-2", "r-2"]


async def test_a_snapshot_after_a_break_replaces_everything() -> None:
    streams = (Answer(WHOLE), opened(event("snapshot", snapshot([], [], cluster="another"))))
    with serving(refused(404), *streams) as console:
        async with watching(console) as watched:
            await wait_until(watched.shows("0 nodes"), "the other snapshot is shown")
            assert watched.latest.known.picture is not None
            assert watched.latest.known.picture.cluster == "another"


async def test_after_what_is_not_understood_a_snapshot_is_asked_for() -> None:
    broken = WHOLE + event("change", {"id": "r-2", "at": "never"})
    with serving(refused(404), Answer(broken), opened(WHOLE)) as console:
        async with watching(console):
            await wait_until(lambda: len(console.seen) == 2, "it connects again")
    assert [seen[1] for seen in console.seen] == ["", ""]


async def test_a_lost_console_keeps_the_picture_and_says_so() -> None:
    with serving(refused(404), Answer(WHOLE), refused(503, "no mirror")) as console:
        async with watching(console) as watched:
            await wait_until(watched.shows("no mirror"), "the reason is shown")
            assert watched.shows("ip-a")()


async def test_a_key_leads_to_a_report_which_is_read_while_it_is_shown() -> None:
    with serving(refused(404), opened(WHOLE)) as console:
        console.reports = {
            "decisions": document(DECISIONS),
            "health": refused(503, "nothing is known yet"),
        }
        async with watching(console) as watched:
            await wait_until(watched.shows("ip-a"), "the nodes are shown")
            watched.latest.press(b"2")
            await wait_until(watched.shows("bought for 3 pods"), "the decisions are shown")
            assert not watched.shows("ip-a")()
            watched.latest.press(b"6")
            await wait_until(watched.shows("nothing is known yet"), "the reason is shown")
            watched.latest.press(b"\t")
            await wait_until(watched.shows("ip-a"), "the first view follows the last")
    assert {seen[0] for seen in console.seen[1:]} == {"/api/decisions", "/api/health"}
    assert {seen[2] for seen in console.seen} == {"Bearer secret"}


@pytest.mark.slow
async def test_a_report_that_cannot_be_read_again_stays_with_the_reason() -> None:
    with serving(refused(404), opened(WHOLE)) as console:
        console.reports = {"decisions": document(DECISIONS)}
        async with watching(console) as watched:
            watched.latest.press(b"2")
            await wait_until(watched.shows("bought for 3 pods"), "the decisions are shown")
            console.reports = {"decisions": document([])}
            await wait_until(watched.shows("is not understood"), "the reason is shown")
            assert watched.shows("bought for 3 pods")()


async def test_a_token_that_is_refused_later_ends_it() -> None:
    with serving(refused(404), Answer(WHOLE), refused(401, "expired")) as console:
        latest, stop = Latest(SystemClock()), asyncio.Event()
        stream = updates(Address(console.url), Backoff(None, first=0.01))
        with pytest.raises(Unauthorized, match="expired"):
            await watch(latest, stream, partial(report, Address(console.url)), stop, lambda: None)
    assert latest.known.picture is not None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(b""), "the console ended the stream at http://127.0.0.1"),
        (Answer(event("snapshot", {"id": "1"})), "sends what is not understood"),
        (document({}), "it sends application/json"),
    ],
)
async def test_without_a_first_message_it_ends(answer: Answer, said: str) -> None:
    with serving(refused(404), answer) as console:
        stream = updates(Address(console.url), Backoff(None, first=0.01))
        with pytest.raises(DovetailError, match=said):
            await anext(stream)


async def test_pauses_grow_until_the_stream_lives() -> None:
    """A snapshot alone does not count: a console that fails after it would be asked for one twice a second."""
    alive = WHOLE + event("beat", {"at": AT, "trusted": {"ok": True}})
    streams = (Answer(WHOLE), Answer(WHOLE), Answer(alive), opened(WHOLE))
    pauses: list[float] = []
    with serving(refused(404), *streams) as console:
        stream = updates(Address(console.url), Backoff(None, first=0.01))
        while len(pauses) < 3:
            update = await anext(stream)
            pauses += [update.seconds] if isinstance(update, Lost) else []
        await stream.aclose()
    assert pauses == [0.01, 0.02, 0.01]
