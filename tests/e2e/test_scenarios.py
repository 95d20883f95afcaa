"""Stories of the article and the workshop, on the local stack to their end (ACC-02, ACC-04, ACC-05, ACC-07)."""

from __future__ import annotations

import asyncio
import re

import pytest

from cli.demo.report import Report
from shared.kube.resources import DAEMON_SETS, MACHINES
from tests.support.console.story_page import StoryPage
from tests.support.stories.playground import Playground, until

pytestmark = pytest.mark.e2e
SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption")
MOST_MEMORY_KIB = 150_000_000 // 1024


async def came_out(playground: Playground, scenario: str) -> Report:
    """Play it; every phase ended, every check held, and nothing is left."""
    report = await playground.play(scenario)
    problems = [report.failure, *(check.detail for check in report.checks if not check.ok)]
    assert report.ok, (problems, report.timeline[-20:])
    total, running, pending = report.pods
    assert (running, pending) == (total, 0)
    await assert_nothing_is_left(playground, report)
    return report


async def assert_nothing_is_left(playground: Playground, report: Report) -> None:
    """0 instances, 0 Machines, 0 added nodes, streams drained, no dead letters."""
    now = await playground.look()
    assert (now.live_instances, now.machines, now.nodes, now.pods) == ((), (), (), ())
    assert report.terminated == report.launched
    await until(playground.no_work_is_left, "no launch record and drained streams")


def resident_kib(pid: int) -> int:
    """proc(5): VmRSS in KiB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def planned_pods(playground: Playground) -> list[int]:
    """How many of the 400 pods each Machine asks room for, once all Machines are there."""
    machines = (await playground.kube.list(MACHINES)).items
    daemons = len((await playground.kube.list(DAEMON_SETS)).items)
    rooms = [int(raw["spec"]["resources"]["requests"]["pods"]) - daemons for raw in machines]
    return rooms if sum(rooms) == 400 else []


async def test_400_small_pods_run_on_at_most_two_nodes_and_services_stay_below_150_mb(
    fresh_playground: Playground, console: StoryPage
) -> None:
    """The console shows them come, what was decided, and how they go."""
    async with asyncio.TaskGroup() as group:
        story = group.create_task(came_out(fresh_playground, "burst-400"))
        await console.node("spot.*ready.*pods")
        await console.recorded(pods=100)
        await console.node("draining")
        await console.decision(
            re.compile("1 machine for [1-4][0-9]{2} pods"),
            re.compile(r"New machines by each packing policy: FewestNodes \$.* LowestCost \$"),
        )
    report = story.result()
    assert report.pods[0] == 400
    assert report.launched <= 2
    assert report.comparison.nodes == 27
    resident = {name: resident_kib(fresh_playground.part(name).process.pid) for name in SERVICES}
    assert {name: kib for name, kib in resident.items() if kib > MOST_MEMORY_KIB} == {}


async def test_100_pods_of_one_cpu_run_on_one_node(playground: Playground) -> None:
    report = await came_out(playground, "burst-100")
    assert (report.pods[0], report.launched) == (100, 1)


async def test_10_pods_of_ten_cpus_run_on_one_node(playground: Playground) -> None:
    report = await came_out(playground, "burst-10")
    assert (report.pods[0], report.launched) == (10, 1)


async def test_a_spread_over_hostnames_gets_14_or_15_nodes_of_at_most_30_pods(
    playground: Playground,
) -> None:
    """ACC-07: planned as a hard rule. kube-scheduler takes ScheduleAnyway as a wish: a node that
    joins first may end up with a pod more.
    """
    story = asyncio.create_task(came_out(playground, "hostname-spread"))
    planned = await until(lambda: planned_pods(playground), "400 planned pods")
    report = await story
    assert 14 <= len(report.nodes) <= 15
    assert sum(node.pods for node in report.nodes) == 400
    assert max(planned) <= 30


async def test_an_interrupted_spot_node_is_replaced_by_another_offering(
    playground: Playground, console: StoryPage
) -> None:
    """INT-20..INT-22: deleted once, drained at once, replaced in parallel; and seen on the console."""
    async with asyncio.TaskGroup() as group:
        story = group.create_task(came_out(playground, "spot-interruption"))
        await console.view("interruptions", "spot interrupted")
    report = story.result()
    assert report.launched == 2
    assert "interrupted offering" in {check.name for check in report.checks}


async def test_a_deleted_node_is_drained_terminated_and_replaced(playground: Playground) -> None:
    """TRM-01: the finalizer turns kubectl delete node into a termination."""
    report = await came_out(playground, "node-delete")
    assert report.launched == 2


async def test_a_workload_scaled_to_zero_leaves_nothing(playground: Playground) -> None:
    report = await came_out(playground, "scale-to-zero")
    assert report.terminated == report.launched >= 1
