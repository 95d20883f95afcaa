"""What triggers a plan: pods come by one way, the stream ``pods``, and a list of all of them finds what got lost."""

from __future__ import annotations

import asyncio

import pytest

from services.scheduler.provisioning import planner as planner_module
from shared.concurrency.clock import SystemClock
from shared.domain.records import NODE_POOLS, PODS
from shared.redis.bus import RetryLater
from shared.redis.messages import (
    InterruptionReceived,
    LaunchFailed,
    MachineTerminated,
    Message,
    PodUnschedulable,
    encode,
)
from shared.redis.mirror import Change
from tests.services.scheduler.conftest import Scheduler
from tests.support.planning.builders import make_pod
from tests.support.waiting import wait_until

WAITS = PodUnschedulable(uid="uid-web", pod="default/web", generation=1)
INTERRUPTED = InterruptionReceived(
    kind="spot_interrupted", instances=("i-1",), deadline=1.0, event="event-1"
)
FAILED = LaunchFailed(machine="Machine/m", reason="no capacity")
TERMINATED = MachineTerminated(machine="Machine/m")


async def handle(scheduler: Scheduler, message: Message) -> set[str]:
    """The triggers of the open window after this message."""
    handlers = scheduler.parts.handlers
    stream = {InterruptionReceived: handlers.interruptions, PodUnschedulable: handlers.pods}
    handler = stream.get(type(message), handlers.machines)
    await handler(encode(message, cause="c", clock=SystemClock()))
    return scheduler.planner.window.seen


async def test_a_pod_that_waits_joins_the_batch_once(scheduler: Scheduler) -> None:
    assert await handle(scheduler, WAITS) == {"uid-web"}
    assert await handle(scheduler, WAITS) == {"uid-web"}


async def test_the_mirror_alone_triggers_nothing_for_a_pod(scheduler: Scheduler) -> None:
    """One way per pod: a second one would only delay the end of the window."""
    pod = make_pod("web")
    await scheduler.show(pods=[pod])
    scheduler.parts.note(Change(PODS, pod.key, scheduler.reader.kinds[PODS][pod.key]))
    assert not scheduler.planner.is_batching()


@pytest.mark.parametrize("cause", ["time", "a pool changed"])
async def test_a_pod_whose_message_got_lost_is_found(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    """BAT-01: within RECHECK_SECONDS, or when something changes that may give it a place."""
    if cause == "time":
        monkeypatch.setattr(planner_module, "RECHECK_SECONDS", 0.0)
    await scheduler.show(pods=[make_pod("web")])
    stop, planner = asyncio.Event(), scheduler.planner
    async with asyncio.TaskGroup() as group:
        group.create_task(planner.run(stop))
        if cause == "a pool changed":
            scheduler.parts.note(Change(NODE_POOLS, "Provisioner/default", None))
        await wait_until(lambda: planner.rounds, "the pod is planned for")
        stop.set()


@pytest.mark.parametrize(
    "message", [FAILED, TERMINATED], ids=lambda message: type(message).__name__
)
async def test_pods_that_counted_on_a_lost_machine_join_the_batch(
    scheduler: Scheduler, message: Message
) -> None:
    await scheduler.show(pods=[make_pod("web")])
    assert await handle(scheduler, message) == {"uid-web"}


async def test_an_interruption_waits_for_the_mirror(scheduler: Scheduler) -> None:
    """INT-22: without it nobody knows which pods have to move."""
    scheduler.reader.complete = False
    with pytest.raises(RetryLater):
        await handle(scheduler, INTERRUPTED)
    scheduler.reader.complete = True
    assert await handle(scheduler, INTERRUPTED) == {"interruption/event-1"}
