"""Services killed and Redis emptied in the middle of burst-400: the story still ends as it must
(reliability F1, F5, F8, F9; design section 9).

Whoever is killed is started again by the supervisor, as by compose or by Kubernetes.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing

import pytest

from cli.demo.report import Report
from cli.demo.snapshot import Snapshot
from local.stack import Stack
from shared.bus import connect
from shared.domain.nodes import provider_instance_id
from shared.kube.resources import LAUNCH_RECORDS, MACHINES
from tests.support.playground import LOOK_SECONDS, Playground, playground_on, running_stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
PODS = 400


@pytest.fixture(scope="module")
def fragile_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose parts may be killed."""
    with running_stack(tmp_path_factory) as stack:
        yield stack


@pytest.fixture
async def victims(fragile_stack: Stack) -> AsyncIterator[Playground]:
    async with playground_on(fragile_stack) as playground:
        yield playground


async def seen(playground: Playground, what: str, reached: Callable[[Snapshot], bool]) -> Snapshot:
    """The story as soon as it got there."""

    async def look() -> Snapshot | None:
        now = await playground.look()
        return now if reached(now) else None

    found = await wait_until(look, what, seconds=60, every=LOOK_SECONDS)
    assert found is not None
    return found


def kill(playground: Playground, name: str) -> None:
    """kill -9 one service."""
    process = playground.part(name).process
    assert process.alive()
    process.send(signal.SIGKILL)


async def flush_redis(playground: Playground) -> None:
    redis = connect(playground.environment.redis_url, connections=1)
    try:
        await redis.execute_command("FLUSHALL")
    finally:
        await redis.aclose()


async def assert_machines_match_instances(playground: Playground) -> None:
    """No live instance without a Machine, no Machine without a live instance."""
    owned = {
        provider_instance_id(raw["status"]["providerID"])
        for raw in (await playground.kube.list(MACHINES)).items
    }
    live = {one.instance_id for one in await playground.emulator.instances() if one.live}
    assert owned == live


def assert_came_out(report: Report) -> None:
    problems = [report.failure, *(check.detail for check in report.checks if not check.ok)]
    assert report.ok, (problems, report.timeline[-30:])
    assert report.pods == (PODS, PODS, 0)
    assert report.launched <= 2
    assert report.terminated == report.launched


async def assert_all_gone(playground: Playground) -> None:
    now = await playground.look()
    assert (now.live_instances, now.machines, now.nodes) == ((), (), ())
    assert (await playground.kube.list(LAUNCH_RECORDS)).items == []


async def kill_at_the_first_intent(playground: Playground) -> None:
    """The launcher dies with its intent written; whether EC2 heard of it is not known yet.

    Watched, not polled: a record lives for less than a look at a busy machine takes.
    """
    version = (await playground.kube.list(LAUNCH_RECORDS)).resource_version
    changes = playground.kube.watch(LAUNCH_RECORDS, version, timeout_seconds=120)
    async with aclosing(changes):
        async for change in changes:
            if change.type == "ADDED":
                return kill(playground, "launcher")
    raise AssertionError("not within 120 s: a LaunchRecord")


async def test_killing_each_service_once_costs_time_and_nothing_else(victims: Playground) -> None:
    """F1: the launcher dies between its intent and its record; F5: new consumers take over."""
    intent = asyncio.create_task(kill_at_the_first_intent(victims))
    story = asyncio.create_task(victims.play("burst-400"))
    await seen(victims, "400 pods exist", lambda now: now.total == PODS)
    kill(victims, "watcher")
    kill(victims, "scheduler")
    await intent
    await seen(victims, "a node boots", lambda now: bool(now.live_instances))
    kill(victims, "interruption")
    await seen(victims, "all pods run", lambda now: now.running == PODS)
    await assert_machines_match_instances(victims)
    await seen(victims, "a Machine is deleted", lambda now: any(m.leaving for m in now.machines))
    kill(victims, "terminator")
    assert_came_out(await story)
    await assert_all_gone(victims)
    restarts = {part.name: part.restarts for part in victims.stack.running().parts}
    assert {name: restarts[name] for name in ("redis", "aws", "cluster")} == dict.fromkeys(
        ("redis", "aws", "cluster"), 0
    )
    assert all(restarts[name] >= 1 for name in restarts.keys() - {"redis", "aws", "cluster"})


async def test_a_redis_emptied_twice_costs_time_and_nothing_else(victims: Playground) -> None:
    """F8, F9: doorbells, groups, mirror and catalogue are lost while pods wait for a plan and while
    the nodes go.
    """
    story = asyncio.create_task(victims.play("burst-400"))
    await seen(victims, "400 pods exist", lambda now: now.total == PODS)
    await flush_redis(victims)
    await seen(victims, "all pods run", lambda now: now.running == PODS)
    await assert_machines_match_instances(victims)
    await seen(victims, "a Machine is deleted", lambda now: any(m.leaving for m in now.machines))
    await flush_redis(victims)
    assert_came_out(await story)
    await assert_all_gone(victims)
