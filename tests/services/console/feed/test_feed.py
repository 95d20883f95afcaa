"""A page that comes back continues where it was, or begins anew; a slow page costs no memory."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.console.feed.feed import Feed, Trust
from services.console.feed.history import History, pack, replayed
from services.console.feed.server_sent_events import events
from services.console.picture.picture import Picture
from shared.domain.records import NODES
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_node

SOUND = Trust(True)


def new_feed(epoch: str = "one", most_bytes: int = 1 << 20) -> Feed:
    return Feed(Picture(), epoch, "test", "0", most_bytes=most_bytes)


def step(feed: Feed, number: int, at: float | None = None) -> bytes | None:
    """One more node."""
    name = f"node-{number}"
    feed.picture.note(NODES, name, msgspec.json.encode(make_node(name)))
    return feed.take(float(number) if at is None else at, SOUND)


async def read(feed: Feed, last_id: str, count: int) -> list[tuple[str, str, Any]]:
    """The first events of a connection: (name, id, data)."""
    found = []
    stream = events(feed, last_id, FakeClock())
    async with asyncio.timeout(10):
        async for raw in stream:
            fields = dict(line.split(": ", 1) for line in raw.decode().strip().split("\n"))
            found.append((fields["event"], fields.get("id", ""), orjson.loads(fields["data"])))
            if len(found) == count:
                return found
    raise AssertionError(f"only {len(found)} events")


async def test_a_new_page_gets_the_whole_picture_then_changes() -> None:
    feed = new_feed()
    step(feed, 1)
    ((name, event_id, picture),) = await read(feed, "", 1)
    assert (name, event_id) == ("snapshot", "one-1")
    assert [row["name"] for row in picture["nodes"]] == ["node-1"]


async def test_a_page_that_comes_back_gets_exactly_what_it_missed() -> None:
    feed = new_feed()
    for number in range(1, 6):
        step(feed, number)
    found = await read(feed, "one-3", 2)
    assert [(name, event_id) for name, event_id, _ in found] == [
        ("change", "one-4"), ("change", "one-5"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "last_id", ["two-3", "one-99", "one-", "one-x", "", "one", "one-" + "9" * 40, "one-²"]
)
async def test_an_unknown_position_gets_the_whole_picture(last_id: str) -> None:
    """Of another replica, of a console that was restarted, from the future, forged."""
    feed = new_feed()
    step(feed, 1)
    ((name, _, _),) = await read(feed, last_id, 1)
    assert name == "snapshot"


async def test_a_page_that_is_too_far_behind_gets_the_whole_picture_and_costs_nothing() -> None:
    feed = new_feed(most_bytes=2000)
    for number in range(1, 200):
        step(feed, number)
    assert feed.after(1) is None
    assert sum(len(entry.body) for entry in feed._entries) <= 2000
    ((name, event_id, picture),) = await read(feed, "one-1", 1)
    assert (name, event_id) == ("snapshot", "one-199")
    assert len(picture["nodes"]) == 199


async def test_a_waiting_page_hears_of_the_next_change() -> None:
    feed = new_feed()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(feed.wait_after(0, 10))
        await asyncio.sleep(0)
        step(feed, 1)
    assert waiting.result()


def test_nothing_is_sent_while_nothing_changes_but_a_doubt_is() -> None:
    feed = new_feed()
    assert step(feed, 1) is not None
    assert feed.take(2.0, SOUND) is None
    body = feed.take(3.0, Trust(False, "the watch of pods is broken"))
    assert body is not None
    assert orjson.loads(body)["trusted"] == {
        "ok": False, "reason": "the watch of pods is broken", "missing": "", "heard": 0,
    }  # fmt: skip


async def test_a_browser_hears_how_long_to_wait_before_it_connects_again() -> None:
    """Their own defaults differ by seconds."""
    stream = events(new_feed(), "", FakeClock())
    first = await anext(stream)
    await stream.aclose()
    assert first.startswith(b"retry: 1000\nevent: snapshot\n")


async def test_open_pages_are_counted_until_they_go() -> None:
    feed = new_feed()
    pages = [events(feed, "", FakeClock()) for _ in range(2)]
    for page in pages:
        await anext(page)
    assert feed.readers == 2
    for page in pages:
        await page.aclose()
    assert feed.readers == 0


def recorded(history: History, feed: Feed, seconds: float, period: float = 1.0) -> None:
    at = 0.0
    number = 0
    while at < seconds:
        number += 1
        at += period
        body = step(feed, number, at)
        assert body is not None
        history.add_change(at, body)
        if history.wants_picture(at):
            history.add_picture(at, pack(feed.snapshot(0.0)[1]))


@given(st.floats(0, 200, allow_nan=False))
def test_a_moment_shows_the_nodes_of_that_moment(moment: float) -> None:
    history, feed = History(), new_feed()
    recorded(history, feed, 150)
    found = history.recording().at(moment)
    assert found is not None
    assert len(found["nodes"]) == min(150, max(1, int(moment)))


@given(st.floats(1, 150), st.floats(0, 60))
def test_playing_from_a_moment_leads_to_the_later_one(moment: float, more: float) -> None:
    history, feed = History(), new_feed()
    recorded(history, feed, 150)
    start, end = history.recording().at(moment), history.recording().at(moment + more)
    assert start is not None
    played = replayed(start, history.recording().changes(moment, moment + more))
    assert end is not None
    assert sorted(row["id"] for row in played["nodes"]) == sorted(r["id"] for r in end["nodes"])


def test_the_history_keeps_an_hour_and_no_more() -> None:
    history, feed = History(), new_feed()
    recorded(history, feed, 5000, period=20.0)
    assert history.span(5000.0) == (1400.0, 5000.0)
    assert history.recording().parts[0].begin <= 1400.0
    found = history.recording().at(1400.0)
    assert found is not None
    assert len(found["nodes"]) == 70


def test_the_history_keeps_to_its_bytes() -> None:
    history, feed = History(most_bytes=20_000), new_feed()
    recorded(history, feed, 600)
    assert history._bytes == sum(len(part.body) for part in history.recording().parts) <= 20_000
    assert history.recording().at(0.0) is not None


def test_without_anything_recorded_no_moment_is_shown() -> None:
    assert History().recording().at(5.0) is None
    assert History().span(5.0) is None
