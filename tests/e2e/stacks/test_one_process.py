"""``dovetail up --one-process``: one process, and five services each under its own name."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis
from rich.console import Console

from cli.demo.display import Display
from cli.demo.scenarios import SCENARIOS
from cli.demo.story import play
from local.stack_plan import SERVICES
from shared.concurrency.clock import SystemClock
from tests.support.stories.playground import DEMO, playground_on, short_settings, stack_of

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]


async def test_a_story_with_the_rights_of_each_service_alone(tmp_path: Path) -> None:
    """What deploy/ does not give a service is refused to it: by the API server, by Redis, by the emulator."""
    settings = replace(short_settings(tmp_path / "stack"), one_process=True)
    with stack_of(settings) as stack:
        assert {part.name for part in stack.running().parts} >= {"services"}
        async with playground_on(stack) as playground:
            display = Display(Console(file=io.StringIO()))
            report = await play(
                SCENARIOS["nodepool"], DEMO, playground.environment, display, SystemClock()
            )
            assert report.ok, report.failure
            redis = Redis.from_url(playground.environment.redis_url)
            users = {client["user"] for client in await redis.client_list()}
            refused = await redis.acl_log()
            await redis.aclose()
        assert set(SERVICES) <= users
        assert refused == []
        assert "UnauthorizedOperation" not in stack.log_file("services").read_text()
