"""The previous release is replaced by this one, and this one by the previous one, while pods come and go.

Two replicas of each service run. A replica is replaced as a Deployment does it: the new one is ready before an old one
gets SIGTERM. Both versions work side by side meanwhile, with each other's messages, mirror, Leases and LaunchRecords,
on this release's CRDs, roles and Redis users. The same load without any change before it is the measure.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from local.stack_plan import PROJECT, SERVICES
from tests.support.redis.guarded import refused_by
from tests.support.stories.playground import Playground, playground_on
from tests.support.stories.upgrades.load import Load, pool_of_one_type
from tests.support.stories.upgrades.previous import previous_release
from tests.support.stories.upgrades.replicas import Replicas, replicated_stack

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(900)]
QUIET_SECONDS = 60.0
OLD_HANDOVER_SECONDS = 5.0
"""Version 0.1.0 looks at its Lease every 2 s, and a machine that starts ten processes is busy."""
HANDOVER_SECONDS = 1.0
"""Of this version: a tenth of that, and the machine is busy all the same."""


@pytest.fixture
async def replicas(tmp_path: Path) -> AsyncIterator[Replicas]:
    with replicated_stack(tmp_path / "stack", Random(18)) as replicas:
        yield replicas


@pytest.mark.parametrize("direction", ["upgrade", "rollback", "restart"])
async def test_pods_do_not_notice_that_every_service_is_replaced(
    replicas: Replicas, tmp_path: Path, direction: str
) -> None:
    """No pod waits longer than without it but for a change of leader, no machine is launched twice, nothing leaks."""
    before, after = trees(direction, tmp_path)
    await replicas.start_all(before)
    async with playground_on(replicas.stack) as playground:
        await pool_of_one_type(playground)
        quiet = await quiet_run(playground)
        busy = await rolling_run(playground, replicas, after)
        report(direction, quiet, busy)
        assert {one.tree for several in replicas.running.values() for one in several} == {after}
        handover = HANDOVER_SECONDS if before == after else OLD_HANDOVER_SECONDS
        longest = max(quiet.pending()) + handover
        assert [seconds for seconds in busy.pending() if seconds > longest] == []
        for load in (quiet, busy):
            launches = {name: len(instances) for name, instances in load.machines.items()}
            assert {name: count for name, count in launches.items() if count != 1} == {}
            assert len(load.instances) == len(load.machines), "instances without a machine"
            assert len(load.machines) == len(load.created), "more machines than pods"
        assert await playground.no_work_is_left()
        assert await refused_by(playground.environment.redis_url) == []
        await playground.restore()
    assert replicas.failures() == []


def trees(direction: str, folder: Path) -> tuple[Path, Path]:
    """The code before and after. Skips a direction that needs the previous release where there is none."""
    if direction == "restart":
        return PROJECT, PROJECT
    previous = previous_release(folder)
    return (previous, PROJECT) if direction == "upgrade" else (PROJECT, previous)


async def quiet_run(playground: Playground) -> Load:
    """The load while nothing is replaced."""
    load, over = Load(playground), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run("quiet", over))
        await asyncio.sleep(QUIET_SECONDS)
        over.set()
    return load


async def rolling_run(playground: Playground, replicas: Replicas, tree: Path) -> Load:
    """The load while every replica is replaced, service by service."""
    load, over = Load(playground), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run("rolled", over))
        for service in SERVICES:
            await replicas.roll(service, tree)
        over.set()
    return load


def report(direction: str, quiet: Load, busy: Load) -> None:
    """The figures, into the file that UPGRADE_REPORT names: docs/operating/version-skew.md quotes them."""
    path = os.environ.get("UPGRADE_REPORT")
    if path:
        figures = {
            name: {
                "pods": len(load.created),
                "machines": len(load.machines),
                "median": round(sorted(load.pending())[len(load.created) // 2], 2),
                "longest": round(max(load.pending()), 2),
            }
            for name, load in (("quiet", quiet), ("rolled", busy))
        }
        with Path(path).open("a") as file:
            file.write(json.dumps({direction: figures}) + "\n")
