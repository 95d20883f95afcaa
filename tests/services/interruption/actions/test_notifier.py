"""What is told about a storm, and that nobody waits for it (INT-22)."""

from __future__ import annotations

import asyncio
import random

from services.interruption.actions.notifier import (
    INSTANCES_PER_MESSAGE,
    ORDERS_AT_ONCE,
    Bells,
    messages,
)
from services.interruption.notices.notice import Notice, NoticeKind
from shared.bus import Bus
from shared.clock import SystemClock
from shared.domain.machines import Machine
from shared.messages import InterruptionReceived, TerminateMachine, encode
from shared.mirror.offerings import UnavailableOfferings
from shared.settings import InterruptionSettings, read
from tests.support.builders import make_machine

Rung = tuple[Machine, str, Notice]


def rung(number: int, kind: str = NoticeKind.SPOT, deadline: float | None = None) -> Rung:
    machine = make_machine(f"m-{number}")
    instance = f"i-{number:017x}"
    return machine, instance, Notice(f"event-{number}", kind, (instance,), deadline=deadline)


def received(storm: list[Rung]) -> list[InterruptionReceived]:
    return [m for _, m, _ in messages(storm) if isinstance(m, InterruptionReceived)]


def test_a_storm_is_one_message_per_kind_with_the_earliest_deadline() -> None:
    storm = [rung(1, deadline=9.0), rung(2, NoticeKind.STOPPED), rung(3, deadline=7.0), rung(4)]
    spot, stopped = received(storm)
    assert (spot.kind, len(spot.instances), spot.deadline) == (NoticeKind.SPOT, 3, 7.0)
    assert (stopped.kind, len(stopped.instances), stopped.deadline) == (NoticeKind.STOPPED, 1, None)


def test_a_message_stays_within_the_limit_of_the_bus() -> None:
    storm = [rung(n) for n in range(2 * INSTANCES_PER_MESSAGE + 1)]
    found = received(storm)
    assert [len(one.instances) for one in found] == [1000, 1000, 1]
    for one in found:
        encode(one, cause="c", clock=SystemClock()).encode()


def test_in_a_storm_the_terminator_hears_of_the_first_machines_only() -> None:
    """Of the others it hears from the watcher."""
    found = [m for _, m, _ in messages([rung(n) for n in range(500)])]
    assert sum(isinstance(one, TerminateMachine) for one in found) == ORDERS_AT_ONCE


def test_the_scheduler_hears_first_and_the_terminator_of_every_machine() -> None:
    kinds = [type(message) for _, message, _ in messages([rung(1), rung(2)])]
    assert kinds == [InterruptionReceived, TerminateMachine, TerminateMachine]


async def test_without_redis_ringing_costs_nothing_and_the_loop_goes_on() -> None:
    """The doorbell is an extra: a deletion never waits for it."""
    clock = SystemClock()
    bus = Bus("redis://127.0.0.1:9/0", "nowhere", clock=clock, random=random.Random(1))
    settings = read(InterruptionSettings, cluster_name="c", aws_region="us-west-2")
    bells = Bells(settings, bus, UnavailableOfferings(bus.redis, bus.prefix, clock), clock)
    stop = asyncio.Event()
    running = asyncio.create_task(bells.run(stop))
    bells.mark(("spot", "m5.large", "us-west-2a"))
    bells.ring(*rung(1))
    bells.ring(*rung(1))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(running, 60)
    assert not bells._rung
    await bus.close()
