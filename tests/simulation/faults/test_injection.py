"""Every kind of fault reaches its part of the world, and nothing of it lasts longer than its plan."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from simulation.faults import SCENARIOS, inject, plan_faults
from simulation.faults.fault import Fault, Span
from simulation.faults.processes import Kill
from simulation.faults.scenarios import KINDS
from tests.simulation.faults.recording_world import RecordingWorld
from tests.support.clock.leaping import run_leaping

PROCESSES = SCENARIOS["two-replicas"].processes()


def drawn(kind: str, seed: int) -> Fault:
    return KINDS[kind].draw(Random(seed), Span(10.0, 240.0), PROCESSES)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_acts_on_the_world(kind: str) -> None:
    world = RecordingWorld(PROCESSES)
    run_leaping(inject([drawn(kind, 1)], world))
    ended = ["redis.set_out_of_memory", "redis.set_disk_full", "aws.clear"]
    ended += ["process.skew"] * len(PROCESSES)
    assert world.names()[0] == "trace.add"
    assert world.names()[-len(ended) :] == ended
    assert len(world.names()) > len(ended) + 1, "the fault called nothing"


def test_faults_are_recorded_at_their_times_and_may_overlap() -> None:
    world = RecordingWorld(PROCESSES)
    plan = plan_faults(Random(3), 5, SCENARIOS["network"])
    times: list[float] = []

    async def main() -> None:
        begin = asyncio.get_running_loop().time()
        world.trace.add = lambda kind, **fields: times.append(
            asyncio.get_running_loop().time() - begin
        )
        await inject(plan, world)

    run_leaping(main())
    assert times == pytest.approx([one.at_seconds for one in plan], abs=0.01)


def test_an_idle_process_is_killed_at_last() -> None:
    world = RecordingWorld(PROCESSES)
    world.processes["watcher-0"].dies_by_itself = False
    run_leaping(Kill(0.0, "watcher-0", 400).apply(world))
    assert world.names() == ["process.kill_after", "process.kill"]


def test_a_process_that_was_started_again_is_not_killed_a_second_time() -> None:
    world = RecordingWorld(PROCESSES)
    run_leaping(Kill(0.0, "watcher-0", 400).apply(world))
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
    run_leaping(inject(plan, world))
    reasons: set[Any] = {json.loads(one)["fix"] for one in world.aws.refused}
    assert reasons == {"no live instance matches"}
