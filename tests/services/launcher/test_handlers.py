"""What the launcher does with messages, and without them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from services.launcher.service import Launcher
from shared.redis import streams
from shared.redis.bus import Bus, Envelope
from shared.redis.messages import RETIRED
from tests.support.waiting import wait_until


def of_type(name: str) -> Envelope:
    return Envelope(
        id=name, type=name, version=1, key=f"Machine/{name}", body=b'{"machine":"a"}', at=1.0
    )


async def test_messages_of_an_older_build_are_acknowledged_and_an_unknown_one_is_kept(
    start: Callable[[], Launcher], bus: Bus
) -> None:
    """F30: after an upgrade a stream may hold messages that nobody sends any more."""
    for name in (*RETIRED, "NeverHeardOf"):
        await bus.publish(streams.MACHINES, of_type(name))
    machines, handled = start().handlers.machines, list[str]()

    async def handle(envelope: Envelope) -> None:
        handled.append(envelope.type)
        await machines(envelope)

    async def settled() -> bool:
        group = (await bus.depth(streams.MACHINES)).groups.get("launcher")
        return group is not None and group.pending == 0 and len(handled) == len(RETIRED) + 1

    consumer = bus.consumer(stream=streams.MACHINES, group="launcher", name="a", handler=handle)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.run(stop))
        await wait_until(settled, "all messages to be settled")
        stop.set()
    letters = await bus.dead_letters(streams.MACHINES).newest(2)
    assert [one.envelope.type for one in letters if one.envelope] == ["NeverHeardOf"]
    assert len(letters) == 1
