"""The ends of a scenario: a report also after a failure, and the streams that must be empty."""

from __future__ import annotations

import io
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cli.demo import story
from cli.demo.display import Display
from cli.demo.report import build_report
from cli.demo.scenarios import SCENARIOS
from cli.demo.settings import DemoSettings
from cli.demo.stage import Stage, StoryFailed
from cli.stack.bus import connected_bus
from cli.stack.environment import Environment
from shared.errors import Unreachable
from shared.redis import streams
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import write_kubeconfig
from tests.support.redis.fixture import redis_server
from tests.support.redis.server import RedisServer
from tests.support.stories.demo_world import stage_of

__all__ = ["redis_server"]

NOWHERE = "http://127.0.0.1:9"
SMALL = replace(SCENARIOS["burst-100"], pods=4)
_numbers = itertools.count(1)


@pytest.fixture
async def stage(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Stage]:
    """With streams of its own, and with an API server and an emulator that do not answer."""
    path = write_kubeconfig(tmp_path / "kubeconfig", NOWHERE)
    name = f"play-{next(_numbers)}"
    environment = Environment(str(path), redis_server.url, NOWHERE, name, {})
    async with stage_of(SMALL, environment, FakeClock(), io.StringIO()) as made:
        yield made


async def test_a_scenario_that_cannot_begin_is_reported_with_the_reason(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", NOWHERE)
    environment = Environment(str(path), "redis://127.0.0.1:9/0", NOWHERE, "dovetail-local", {})
    display = Display(Console(quiet=True))
    outcome = await story.play(SMALL, DemoSettings(), environment, display, FakeClock())
    assert not outcome.ok
    assert NOWHERE in outcome.failure
    assert (outcome.pods, outcome.nodes, outcome.phases) == ((0, 0, 0), (), ())


async def test_a_failed_wait_names_what_is_missing_and_why(stage: Stage) -> None:
    """Without the emulator there is no snapshot: the reason is in the message."""
    stage.scenario = replace(SMALL, timeout_seconds=-1.0)
    with pytest.raises(StoryFailed, match=r"no pods after -1 s \(.*127\.0\.0\.1:9"):
        await stage.until(lambda s: s.total > 0, "no pods")


async def test_an_answer_that_fails_is_asked_for_again_until_the_deadline(stage: Stage) -> None:
    stage.scenario = replace(SMALL, timeout_seconds=-1.0)
    asked = []

    async def ask() -> bool:
        asked.append(1)
        raise Unreachable("not yet")

    with pytest.raises(StoryFailed, match="no answer"):
        await stage.until_true(ask, "no answer")
    assert len(asked) == 1


async def test_the_report_counts_the_last_snapshot_when_the_workload_never_ran(
    stage: Stage,
) -> None:
    story._check_nodes(stage)
    assert [one.detail for one in stage.checks if not one.ok] == ["0 (expected 1 to 1)"]
    outcome = build_report(stage, "no node")
    assert (outcome.ok, outcome.pods, outcome.comparison.nodes) == (False, (0, 0, 0), 2)


async def test_drained_streams_pass(stage: Stage) -> None:
    await story._check_queues(stage)
    assert [(one.name, one.ok) for one in stage.checks] == [("streams", True)]


async def test_streams_that_stay_full_fail_at_the_deadline(stage: Stage) -> None:
    stage.scenario = replace(SMALL, timeout_seconds=-1.0)
    await add(stage, streams.LAUNCHES)
    with pytest.raises(StoryFailed, match=f"streams are not empty: {streams.LAUNCHES}/launcher"):
        await story._check_queues(stage)


async def test_a_dead_letter_fails_at_once(stage: Stage) -> None:
    await add(stage, f"{streams.LAUNCHES}:dead")
    with pytest.raises(StoryFailed, match=f"dead letters: .*{streams.LAUNCHES}.: 1"):
        await story._check_queues(stage)


async def test_a_redis_that_does_not_answer_is_not_drained(stage: Stage) -> None:
    """It may be back before the deadline."""
    nowhere = replace(stage.environment, redis_url="redis://127.0.0.1:9/0")
    stage.environment = nowhere
    assert "127.0.0.1:9" in await story._undrained(stage)


async def add(stage: Stage, stream: str) -> None:
    """One entry that nobody reads."""
    environment = stage.environment
    async with connected_bus(environment.redis_url, environment.cluster_name) as bus:
        await bus.redis.xadd(f"{bus.prefix}{stream}", {"type": "any"})
