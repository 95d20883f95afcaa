"""Streams, consumer groups and dead letters, as the page shows them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from shared.concurrency.clock import Clock
from shared.errors import DovetailError
from shared.redis.bus import Bus, DeadLetter
from shared.redis.inspection import server_facts
from shared.redis.streams import GROUPS

MOST_DEAD_LETTERS = 20
"""Of each stream."""
MOST_CHARACTERS = 4000


async def queues(bus: Bus, clock: Clock) -> dict[str, Any]:
    """Every stream; ``problem`` says why some are missing."""
    found: list[dict[str, Any]] = []
    letters: list[dict[str, Any]] = []
    try:
        for stream in GROUPS:
            found.append(await _queue(bus, clock, stream))
            newest = await bus.dead_letters(stream).newest(MOST_DEAD_LETTERS)
            letters += [dead_letter_row(stream, one) for one in newest]
    except DovetailError as error:
        return {"queues": found, "deadLetters": letters, "problem": f"Redis: {error.message}"}
    return {"queues": found, "deadLetters": letters, "problem": "", "server": await _server(bus)}


async def _server(bus: Bus) -> dict[str, Any] | None:
    """What Redis says of itself; None where its ACL does not let the console ask."""
    try:
        return asdict(await server_facts(bus.redis))
    except DovetailError:
        return None


async def _queue(bus: Bus, clock: Clock, stream: str) -> dict[str, Any]:
    depth = await bus.depth(stream)
    groups = []
    for name, group in sorted(depth.groups.items()):
        unread = await bus.unread(stream, group)
        times = [await bus.oldest_pending(stream, name), unread.oldest]
        oldest = min((at for at in times if at is not None), default=None)
        groups.append(
            {
                "name": name,
                "waiting": unread.count,
                "waitingMore": unread.more,
                "pending": group.pending,
                "oldestSeconds": None if oldest is None else max(0.0, clock.now() - oldest),
                "consumers": group.consumers,
            }
        )
    delayed = await bus.delayed(stream)
    return {
        "stream": stream,
        "length": depth.length,
        "delayed": delayed,
        "dead": depth.dead,
        "groups": groups,
    }


def dead_letter_row(stream: str, letter: DeadLetter) -> dict[str, Any]:
    """One dead letter with its body as text. The milliseconds of its id are when it was given up."""
    envelope = letter.envelope
    body = (
        envelope.body if envelope else b"\n".join(b"%s: %s" % one for one in letter.fields.items())
    )
    milliseconds = letter.id.partition("-")[0]
    return {
        "id": letter.id,
        "stream": stream,
        "at": int(milliseconds) / 1000 if milliseconds.isdecimal() else 0.0,
        "error": letter.error[:MOST_CHARACTERS],
        "group": letter.group,
        "deliveries": letter.deliveries,
        "source": letter.source[:MOST_CHARACTERS],
        "message": f"{envelope.type} {envelope.key}" if envelope else "",
        "body": body.decode(errors="replace")[:MOST_CHARACTERS],
        "replay": f"dovetail dead-letters replay {stream} {letter.id}",
    }
