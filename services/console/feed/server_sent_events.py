"""The stream of one page: a snapshot or the missed changes first, then every change (WHATWG server-sent events)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from services.console.feed.feed import Feed
from shared.concurrency.clock import Clock

BEAT_SECONDS = 5.0
"""A page that hears nothing for three of these says that its picture is old."""
RETRY = b"retry: 1000\n"
"""How long a browser waits before it connects again, in ms: their own defaults differ."""
MOST_ENTRIES = 200
"""Changes that are written at once, before the page's reading is waited for."""


def event(name: str, body: bytes, event_id: str = "") -> bytes:
    """One event. ``body`` is JSON, which has no line breaks."""
    head = f"event: {name}\n" + (f"id: {event_id}\n" if event_id else "")
    return head.encode() + b"data: " + body + b"\n\n"


async def events(feed: Feed, last_id: str, clock: Clock) -> AsyncGenerator[bytes]:
    """Events for one page until it goes. ``last_id``: the last event that it received, empty for none."""
    feed.readers += 1
    try:
        async for one in _events(feed, last_id, clock):
            yield one
    finally:
        feed.readers -= 1


async def _events(feed: Feed, last_id: str, clock: Clock) -> AsyncGenerator[bytes]:
    number = feed.number_of(last_id)
    while True:
        entries = None if number is None else feed.after(number)
        if number is None or entries is None:
            number, body = feed.snapshot(clock.now())
            yield RETRY + event("snapshot", body, feed.id_of(number))
        for entry in (entries or ())[:MOST_ENTRIES]:
            number = entry.number
            yield event("change", entry.body, feed.id_of(number))
        if not await feed.wait_after(number, BEAT_SECONDS):
            yield event("beat", feed.beat(clock.now()))
