"""Services killed and Redis emptied in the middle of burst-400: the story still ends as it must
(reliability F1, F5, F8, F9; design section 9).

Whoever is killed is started again by the supervisor, as by compose or by Kubernetes.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import aclosing

import pytest

from cli.demo.report import Report
from cli.demo.snapshot import Snapshot
from local.stack_plan import SERVICES
from shared.bus import connect
from shared.domain.nodes import provider_instance_id
from shared.kube.resources import LAUNCH_RECORDS, MACHINES
from tests.support.playground import Playground, until

pytestmark = pytest.mark.e2e
PODS = 400


async def seen(playground: Playground, what: str, reached: Callable[[Snapshot], bool]) -> Snapshot:
    """The story as soon as it got there."""

    async def look() -> Snapshot | None:
        now = await playground.look()
        return now if reached(now) else None

    found = await until(look, what)
    assert found is not None
    return found


def kill(playground: Playground, name: str) -> None:
    """kill -9 one service."""
    process = playground.part(name).process
    assert process.alive()
    process.send(signal.SIGKILL)


def restarts(playground: Playground) -> dict[str, int]:
    """How often each part of the stack was started again."""
    return {part.name: part.restarts for part in playground.stack.running().parts}


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


async def test_killing_each_service_once_costs_time_and_nothing_else(
    playground: Playground,
) -> None:
    """F1: the launcher dies between its intent and its record; F5: new consumers take over."""
    before = restarts(playground)
    intent = asyncio.create_task(kill_at_the_first_intent(playground))
    story = asyncio.create_task(playground.play_at_once("burst-400"))
    await seen(playground, "400 pods exist", lambda now: now.total == PODS)
    kill(playground, "watcher")
    kill(playground, "scheduler")
    await intent
    await seen(playground, "a node boots", lambda now: bool(now.live_instances))
    kill(playground, "interruption")
    await seen(playground, "all pods run", lambda now: now.running == PODS)
    await assert_machines_match_instances(playground)
    await seen(playground, "a Machine is deleted", lambda now: any(m.leaving for m in now.machines))
    kill(playground, "terminator")
    assert_came_out(await story)
    await assert_all_gone(playground)
    after = restarts(playground)
    restarted = {name for name in after if after[name] > before[name]}
    assert restarted == set(SERVICES)


async def test_a_redis_emptied_twice_costs_time_and_nothing_else(playground: Playground) -> None:
    """F8, F9: doorbells, groups, mirror and catalogue are lost while pods wait for a plan and while
    the nodes go.
    """
    story = asyncio.create_task(playground.play_at_once("burst-400"))
    await seen(playground, "400 pods exist", lambda now: now.total == PODS)
    await flush_redis(playground)
    await seen(playground, "all pods run", lambda now: now.running == PODS)
    await assert_machines_match_instances(playground)
    await seen(playground, "a Machine is deleted", lambda now: any(m.leaving for m in now.machines))
    await flush_redis(playground)
    assert_came_out(await story)
    await assert_all_gone(playground)
