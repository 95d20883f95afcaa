"""Faults at the moment of a launch: they strike once, and only a call that started instances."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulation.faults.fault import Fault
from simulation.faults.launches import (
    LaunchContested,
    LaunchLost,
    LaunchOvertaken,
    LaunchStopped,
    LaunchUnseen,
)
from simulation.trace import Trace
from tests.simulation.faults.recording_world import RecordingWorld
from tests.support.clock.leaping import run_leaping

LOST = LaunchLost(0.0, seconds=30.0)
STOPPED = LaunchStopped(0.0, seconds=11.0)
OVERTAKEN = LaunchOvertaken(0.0, "launcher-1", seconds=100.0)
CONTESTED = LaunchContested(
    0.0, "launcher-1", lag_seconds=6.0, delay_seconds=1.0, seconds=30.0, seed=7
)


def struck(fault: Fault, started: int, after_seconds: float) -> list[tuple[str, Any]]:
    """(method, first argument) of what the fault does when a call starts so many instances, and then another one."""
    world = RecordingWorld(("scheduler-0", "launcher-0", "launcher-1"))
    world.trace = Trace(lambda: 0.0)

    async def strike() -> None:
        await fault.apply(world)
        world.calls.clear()
        world.trace.add("aws", action="DescribeInstances", code=None, by="dovetail")
        await asyncio.sleep(after_seconds)
        for _ in range(2):
            world.trace.add("aws", action="CreateFleet", code=None, by="dovetail")
            for number in range(started):
                world.trace.add("instance", id=f"i-{number}", state="pending")
            await asyncio.sleep(1)
        await asyncio.sleep(60)

    run_leaping(strike())
    return [(name, arguments[0] if arguments else None) for name, arguments, _ in world.calls]


def test_launchers_are_killed_before_the_answer_and_the_instances_end() -> None:
    calls = struck(LOST, 2, 5)
    assert [name for name, _ in calls] == [
        "process.kill",
        "process.kill",
        "aws.faults",
        "aws.interruptions",
    ]
    assert calls[2][1]["seconds"] == 20.0
    assert calls[3][1]["instanceIds"] == ["i-0", "i-1"]


def test_launchers_are_killed_before_the_answer_and_the_instances_stop() -> None:
    calls = struck(STOPPED, 1, 5)
    assert [name for name, _ in calls] == ["process.kill", "process.kill", "aws.interruptions"]
    assert (calls[2][1]["state"], calls[2][1]["instanceIds"]) == ("stopping", ["i-0"])


def test_one_launcher_stands_still_until_another_has_its_work_and_the_instances_end() -> None:
    calls = struck(OVERTAKEN, 1, 5)
    assert [name for name, _ in calls] == ["process.pause", "aws.interruptions"]
    assert calls[0][1] == 90.0
    assert (calls[1][1]["state"], calls[1][1]["instanceIds"]) == ("terminated", ["i-0"])


def test_one_launcher_is_behind_and_lists_are_late_for_a_while() -> None:
    calls = struck(CONTESTED, 2, 5)
    assert [name for name, _ in calls] == [
        "aws.faults",
        "aws.settings",
        "network.latency",
        "aws.settings",
    ]
    assert calls[2][1] == "launcher-1"
    assert [body["describeLagSeconds"] for name, body in calls if name == "aws.settings"] == [
        6.0,
        0,
    ]


@pytest.mark.parametrize(
    ("fault", "started", "after_seconds"),
    [(LOST, 0, 5), (STOPPED, 0, 5), (CONTESTED, 1, 5), (LOST, 2, 15), (OVERTAKEN, 1, 15)],
    ids=[
        "nothing was started",
        "nothing to stop",
        "a single instance",
        "too late",
        "too late to stand still",
    ],
)
def test_another_call_is_left_alone(fault: Fault, started: int, after_seconds: float) -> None:
    assert struck(fault, started, after_seconds) == []


def test_what_starts_first_never_joins_and_is_listed_as_late_as_ec2_may() -> None:
    world = RecordingWorld(("launcher-0",))

    async def strike() -> None:
        await LaunchUnseen(0.0, seconds=105.0).apply(world)
        await asyncio.sleep(104)
        assert world.names() == ["aws.settings", "cluster.never_join"]
        await asyncio.sleep(2)

    run_leaping(strike())
    assert world.names() == ["aws.settings", "cluster.never_join", "aws.settings"]
    assert world.calls[1][1] == (15.0,)
