"""Every kind of fault reaches its part of the world, and nothing of it lasts longer than its plan."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from simulation.faults import SCENARIOS, end_faults
from simulation.faults.fault import Fault, Span
from simulation.faults.processes import (
    Kill,
    KilledInCommand,
    LauncherKilled,
    LeaderPaused,
    LoopEnds,
)
from simulation.faults.scenarios import KINDS
from simulation.trace import Trace
from tests.simulation.faults.recording_world import RecordingWorld
from tests.support.clock.leaping import run_leaping

PROCESSES = SCENARIOS["two-replicas"].processes()


def drawn(kind: str, seed: int) -> Fault:
    return KINDS[kind].draw(Random(seed), Span(10.0, 240.0), PROCESSES)


async def applied(plan: Sequence[Fault], world: RecordingWorld) -> None:
    """All faults at once, and the longest possible duration after them."""
    for fault in plan:
        await fault.apply(world)
    await asyncio.sleep(300)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_acts_on_the_world(kind: str) -> None:
    world = RecordingWorld(PROCESSES)
    run_leaping(applied([drawn(kind, 1)], world))
    assert world.calls


@pytest.mark.parametrize(
    ("kind", "call", "last"),
    [
        ("redis-full", "redis.set_out_of_memory", False),
        ("disk-full", "redis.set_disk_full", False),
        ("clock-skew", "process.skew", 0.0),
        ("clock-jump", "process.skew", 0.0),
        (
            "ec2-stale-lists",
            "aws.settings",
            {"describeLagSeconds": 0, "tagLagSeconds": 0, "templateLagSeconds": 0},
        ),
    ],
)
def test_an_effect_ends_after_its_time(kind: str, call: str, last: object) -> None:
    world = RecordingWorld(PROCESSES)
    run_leaping(applied([drawn(kind, 1)], world))
    assert [(name, arguments[0]) for name, arguments, _ in world.calls][1:] == [(call, last)]


def test_a_shortage_ends_after_its_time() -> None:
    world = RecordingWorld(PROCESSES)
    run_leaping(applied([drawn("ec2-shortage", 1)], world))
    assert [arguments[0]["available"] for _, arguments, _ in world.calls] == [0, None]


def test_the_end_of_the_faults_removes_what_would_last() -> None:
    world = RecordingWorld(PROCESSES)
    end_faults(world)
    expected = ["redis.set_out_of_memory", "redis.set_disk_full", "aws.clear"]
    assert world.names() == expected + ["process.skew"] * len(PROCESSES)


def test_an_idle_process_is_killed_at_last() -> None:
    world = RecordingWorld(PROCESSES)
    world.processes["watcher-0"].dies_by_itself = False
    run_leaping(applied([Kill(0.0, "watcher-0", 400)], world))
    assert world.names() == ["process.kill_after", "process.kill"]


@pytest.mark.parametrize(
    ("verb", "resource", "by", "killed"),
    [
        ("patch", "nodeclaims", "dovetail-scheduler/1", 2),
        ("update status", "nodeclaims", "dovetail-scheduler/1", 0),
        ("patch", "nodeclaims", "dovetail-launcher/1", 0),
        ("patch", "pods", "dovetail-scheduler/1", 0),
    ],
)
def test_a_scheduler_is_killed_once_when_it_begins_a_command(
    verb: str, resource: str, by: str, killed: int
) -> None:
    world = RecordingWorld(("scheduler-0", "scheduler-1", "launcher-0"))
    world.trace = Trace(lambda: 0.0)

    async def strike() -> None:
        await KilledInCommand(0.0, callbacks=7, seconds=10.0).apply(world)
        for _ in range(2):
            world.trace.add("api", verb=verb, resource=resource, name="a", by=by)
        await asyncio.sleep(20)
        world.trace.add("api", verb=verb, resource=resource, name="a", by=by)
        await asyncio.sleep(1)

    run_leaping(strike())
    assert world.names() == ["process.kill_after"] * killed


@pytest.mark.parametrize(("seconds", "killed"), [(5, 1), (15, 0)])
def test_a_launcher_is_killed_when_a_machine_is_made(seconds: float, killed: int) -> None:
    world = RecordingWorld(("scheduler-0", "launcher-0"))
    world.trace = Trace(lambda: 0.0)

    async def strike() -> None:
        await LauncherKilled(0.0, "launcher-0", callbacks=7).apply(world)
        await asyncio.sleep(seconds)
        by = "dovetail-scheduler/1"
        world.trace.add("api", verb="create", resource="machines", name="a", by=by)
        await asyncio.sleep(1)

    run_leaping(strike())
    assert world.calls == [("process.kill_after", (7,), ())] * killed


@pytest.mark.parametrize(("seconds", "stopped"), [(5, 1), (15, 0)])
def test_the_leader_is_stopped_for_long_when_it_makes_a_machine(
    seconds: float, stopped: int
) -> None:
    world = RecordingWorld(("scheduler-0", "launcher-0"))
    world.trace = Trace(lambda: 0.0)

    async def strike() -> None:
        await LeaderPaused(0.0, seconds=30.0).apply(world)
        await asyncio.sleep(seconds)
        by = "dovetail-scheduler/1"
        world.trace.add("api", verb="create", resource="machines", name="a", by=by)
        await asyncio.sleep(1)

    run_leaping(strike())
    assert world.calls == [("process.pause", (20.0,), ())] * stopped


def test_a_process_whose_loop_ended_is_restarted_after_a_while() -> None:
    world = RecordingWorld(PROCESSES)
    run_leaping(applied([LoopEnds(0.0, "watcher-0", 0.5, 60.0)], world))
    assert world.names() == ["process.end_loop", "process.kill"]


def test_a_process_that_was_started_again_is_not_killed_a_second_time() -> None:
    world = RecordingWorld(PROCESSES)
    run_leaping(applied([Kill(0.0, "watcher-0", 400)], world))
    assert world.names() == ["process.kill_after"]


def test_the_emulator_accepts_every_request_of_the_faults_of_aws(aws_emulator_url: str) -> None:
    def post(method: str, path: str, query: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        request = urllib.request.Request(aws_emulator_url + path, body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    world = RecordingWorld(PROCESSES, post)
    plan = [drawn(kind, seed) for kind in KINDS for seed in range(5)]
    run_leaping(applied(plan, world))
    reasons: set[Any] = {json.loads(one)["fix"] for one in world.aws.refused}
    assert reasons == {"no live instance matches"}
