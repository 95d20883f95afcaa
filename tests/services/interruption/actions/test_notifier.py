"""The messages about a storm, for which no deletion waits (INT-22)."""

from __future__ import annotations

import asyncio
import random

from services.interruption.actions.notifier import (
    INSTANCES_PER_MESSAGE,
    TERMINATE_MESSAGES_AT_ONCE,
    Deletion,
    Notifier,
    messages_for,
)
from services.interruption.notices.notice import Notice, NoticeKind
from shared.concurrency.clock import SystemClock
from shared.redis.bus import Bus
from shared.redis.messages import InterruptionReceived, TerminateMachine, encode
from shared.redis.mirror.catalogue.offerings import UnavailableOfferings
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.settings import InterruptionSettings, read
from tests.support.planning.builders import make_machine


def deletion(
    number: int, kind: NoticeKind = NoticeKind.SPOT, deadline: float | None = None
) -> Deletion:
    machine = make_machine(f"m-{number}")
    instance = f"i-{number:017x}"
    notice = Notice(f"event-{number}", kind, (instance,), deadline=deadline)
    return Deletion(machine, instance, notice)


def received(storm: list[Deletion]) -> list[InterruptionReceived]:
    return [m for _, m, *_ in messages_for(storm) if isinstance(m, InterruptionReceived)]


def test_a_storm_is_one_message_per_kind_with_the_earliest_deadline() -> None:
    storm = [
        deletion(1, deadline=9.0),
        deletion(2, NoticeKind.STOPPED),
        deletion(3, deadline=7.0),
        deletion(4),
    ]
    spot, stopped = received(storm)
    assert (spot.kind, len(spot.instances), spot.deadline) == (NoticeKind.SPOT, 3, 7.0)
    assert (stopped.kind, len(stopped.instances), stopped.deadline) == (NoticeKind.STOPPED, 1, None)


def test_a_message_stays_within_the_limit_of_the_bus() -> None:
    storm = [deletion(n) for n in range(2 * INSTANCES_PER_MESSAGE + 1)]
    found = received(storm)
    assert [len(one.instances) for one in found] == [1000, 1000, 1]
    for one in found:
        encode(one, cause="c", clock=SystemClock()).encode()


def test_in_a_storm_the_terminator_gets_messages_about_the_first_machines_only() -> None:
    """The watcher sends the others."""
    found = [one.message for one in messages_for([deletion(n) for n in range(500)])]
    assert sum(isinstance(one, TerminateMachine) for one in found) == TERMINATE_MESSAGES_AT_ONCE


def test_the_scheduler_is_informed_first_and_the_terminator_of_every_machine() -> None:
    kinds = [type(one.message) for one in messages_for([deletion(1), deletion(2)])]
    assert kinds == [InterruptionReceived, TerminateMachine, TerminateMachine]


async def test_without_redis_a_deletion_waits_for_nothing_and_the_loop_goes_on() -> None:
    """A message is an extra: a deletion never waits for it."""
    clock = SystemClock()
    bus = Bus("redis://127.0.0.1:9/0", "nowhere", clock=clock, random=random.Random(1))
    settings = read(InterruptionSettings, cluster_name="c", aws_region="us-west-2")
    unavailable = UnavailableOfferings(bus.redis, bus.prefix)
    history = ShortageHistory(bus.redis, bus.prefix, clock, settings)
    notifier = Notifier(settings, bus, unavailable, clock, history)
    stop = asyncio.Event()
    running = asyncio.create_task(notifier.run(stop))
    notifier.mark_unavailable(("spot", "m5.large", "us-west-2a"))
    notifier.deleted(*deletion(1))
    notifier.deleted(*deletion(1))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(running, 60)
    assert not notifier._deletions
    await bus.close()
