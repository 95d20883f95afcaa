"""The webhook: bundles, bounds, tries (against a receiver on the loopback)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from services.interruption.actions import webhook as module
from services.interruption.actions.webhook import NAMES, Report, Webhook, filled
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError
from shared.settings import InterruptionSettings, read
from tests.support.planning.builders import make_machine
from tests.support.waiting import wait_until

SLACK = '{"text": "$cluster: $action $machines", "blocks": [{"n": 1, "who": "$count of $kind"}]}'
PLACE = {"cluster": "c", "time": "2027-01-01T00:00:00Z"}


def report(name: str = "m1", action: str = "delete") -> Report:
    return Report("spot_interrupted", "SpotInterrupted", action, make_machine(name), "node-1")


class Receiver:
    """Answers with ``statuses`` in turn, then 200."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.bodies: list[Any] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200)


@asynccontextmanager
async def posting(receiver: Receiver, **said: Any) -> AsyncIterator[Webhook]:
    application = web.Application()
    application.router.add_post("/hook", receiver.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    settings = read(
        InterruptionSettings, cluster_name="c", aws_region="eu-west-1",
        webhook_url=f"http://127.0.0.1:{port}/hook", **said,
    )  # fmt: skip
    hook = Webhook(settings, SystemClock(), random.Random(1))
    stop = asyncio.Event()
    task = asyncio.create_task(hook.run(stop))
    yield hook
    stop.set()
    await task
    await runner.cleanup()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.02)
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.01)


async def test_what_is_alike_is_one_post() -> None:
    receiver = Receiver()
    async with posting(receiver, webhook_template=SLACK) as hook:
        for one in (report("m1"), report("m2"), report("m3", "cordon")):
            hook.report(one)
        await wait_until(lambda: hook.posted == 2, "both posts")
    assert [body["text"] for body in receiver.bodies] == ["c: delete m1, m2", "c: cordon m3"]


async def test_a_receiver_that_stumbles_is_asked_again() -> None:
    receiver = Receiver(503, 429)
    async with posting(receiver) as hook:
        hook.report(report())
        await wait_until(lambda: hook.posted == 1, "the post")
    assert len(receiver.bodies) == 3


@pytest.mark.parametrize(("status", "tries"), [(500, module.TRIES), (404, 1), (302, 1)])
async def test_tries_are_bounded_and_others_go_on(status: int, tries: int) -> None:
    """A refusal for good is not repeated; redirections are not followed."""
    receiver = Receiver(*[status] * tries)
    async with posting(receiver) as hook:
        hook.report(report())
        await wait_until(lambda: hook.dropped == 1, "it was given up")
        assert len(receiver.bodies) == tries
        hook.report(report("m2"))
        await wait_until(lambda: hook.posted == 1, "the next one")


async def test_what_is_left_at_the_end_is_still_posted() -> None:
    receiver = Receiver()
    async with posting(receiver) as hook:
        hook.report(report())
    assert len(receiver.bodies) == 1


def test_without_an_address_nothing_is_gathered_and_the_queue_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LIMIT", 2)
    for url, waiting, dropped in (("", 0, 0), ("http://127.0.0.1:9/", 2, 1)):
        settings = read(
            InterruptionSettings, cluster_name="c", aws_region="eu-west-1", webhook_url=url
        )
        hook = Webhook(settings, SystemClock(), random.Random(1))
        for name in ("a", "b", "c"):
            hook.report(report(name))
        assert (len(hook._waiting), hook.dropped) == (waiting, dropped)


def test_only_texts_are_filled_in_and_no_name_changes_the_form() -> None:
    found = filled(SLACK, [report('", "x": "')], PLACE)
    assert found == {
        "text": 'c: delete ", "x": "',
        "blocks": [{"n": 1, "who": "1 of spot_interrupted"}],
    }
    assert filled('{"text": "$nobody $$"}', [report()], PLACE) == {"text": "$nobody $"}


def test_of_many_the_first_ten_are_named() -> None:
    found = filled(SLACK, [report(f"m{i}") for i in range(NAMES + 5)], PLACE)
    assert found["text"].endswith("m9 and 5 more")
    json.dumps(found)


@pytest.mark.parametrize(
    "said", [{"webhook_template": "{"}, {"webhook_template": "[]"}, {"webhook_url": "slack.com"}]
)
def test_a_wrong_setting_stops_the_start_by_name(said: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(said)).upper()):
        read(InterruptionSettings, cluster_name="c", aws_region="eu-west-1", **said)
