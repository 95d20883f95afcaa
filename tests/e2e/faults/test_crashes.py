"""Services killed and Redis emptied in the middle of burst-400: the story still ends as it must
(F1, F5, F8, F9; docs/spec/design.md).

Whoever is killed is started again by the supervisor, as by compose or by Kubernetes.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import aclosing

import pytest

from cli.demo import workload
from cli.demo.scenarios import SCENARIOS
from cli.demo.snapshot import Snapshot
from local.stack_plan import SERVICES
from shared.domain.nodes import provider_instance_id
from shared.kube.resources import LAUNCH_RECORDS, MACHINES
from shared.redis.bus import connect
from tests.support.stories.playground import TTL_SECONDS, Playground, until

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


def leaves(now: Snapshot) -> bool:
    """A machine is on its way out, or was."""
    return all(machine.leaving for machine in now.machines)


async def kill(playground: Playground, name: str) -> None:
    """kill -9 one service."""
    (await playground.process(name)).send(signal.SIGKILL)


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


async def grow(playground: Playground) -> None:
    """400 pods wait for one plan. No story plays them: it would not wait until we have looked."""
    async with playground.standing_still("scheduler"):
        await workload.apply_pool(playground.kube, playground.environment.cluster_name, TTL_SECONDS)
        document = workload.deployment(SCENARIOS["burst-400"])
        await workload.apply(playground.kube, workload.DEPLOYMENTS, document)
        await workload.scale(playground.kube, PODS)
        await seen(playground, "400 pods exist", lambda now: now.total == PODS)


async def assert_all_goes(playground: Playground, before: set[str]) -> None:
    """Nothing is left once the machines are empty, and no more than two instances were needed. ``before``: instances
    of earlier tests.
    """
    gone = ((), (), ())
    await seen(
        playground,
        "machines, nodes and instances are gone",
        lambda now: (now.live_instances, now.machines, now.nodes) == gone,
    )
    assert len(await instances(playground) - before) <= 2
    await until(playground.no_work_is_left, "no launch record and drained streams")


async def instances(playground: Playground) -> set[str]:
    return {one.instance_id for one in await playground.emulator.instances()}


async def kill_at_the_first_intent(playground: Playground) -> None:
    """The launcher dies with its intent written; whether EC2 heard of it is not known yet.

    Watched, not polled: a record lives for less than a look at a busy machine takes.
    """
    version = (await playground.kube.list(LAUNCH_RECORDS)).resource_version
    changes = playground.kube.watch(LAUNCH_RECORDS, version, timeout_seconds=120)
    async with aclosing(changes):
        async for change in changes:
            if change.type == "ADDED":
                return await kill(playground, "launcher")
    raise AssertionError("not within 120 s: a LaunchRecord")


async def test_killing_each_service_once_costs_time_and_nothing_else(
    playground: Playground,
) -> None:
    """F1: the launcher dies between its intent and its record; F5: new consumers take over."""
    before, older = restarts(playground), await instances(playground)
    intent = asyncio.create_task(kill_at_the_first_intent(playground))
    await grow(playground)
    await kill(playground, "watcher")
    await kill(playground, "scheduler")
    await intent
    await seen(playground, "a node boots", lambda now: bool(now.live_instances))
    await kill(playground, "interruption")
    await seen(playground, "all pods run", lambda now: now.running == PODS)
    await assert_machines_match_instances(playground)
    await workload.scale(playground.kube, 0)
    await seen(playground, "the Machines are deleted", leaves)
    await kill(playground, "terminator")
    await assert_all_goes(playground, older)
    after = restarts(playground)
    restarted = {name for name in after if after[name] > before[name]}
    assert restarted == set(SERVICES)


async def test_a_redis_emptied_twice_costs_time_and_nothing_else(playground: Playground) -> None:
    """F8, F9: doorbells, groups, mirror and catalogue are lost while pods wait for a plan and while
    the nodes go.
    """
    older = await instances(playground)
    await grow(playground)
    await flush_redis(playground)
    await seen(playground, "all pods run", lambda now: now.running == PODS)
    await assert_machines_match_instances(playground)
    await workload.scale(playground.kube, 0)
    await seen(playground, "the Machines are deleted", leaves)
    await flush_redis(playground)
    await assert_all_goes(playground, older)
