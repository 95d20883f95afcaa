"""Commands that wait are sent to a webhook, with signed links; a link opens a page, and its button answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from aiohttp import web

from services.scheduler.approval.links import APPROVE, OVER, REJECT, WRONG, Links
from services.scheduler.approval.pages import _html
from services.scheduler.approval.webhook import Webhook, webhook_of
from shared.concurrency.clock import Clock, SystemClock
from shared.disruption.approval import Outcome
from shared.errors import ConfigurationError
from shared.kube.client import Kube
from shared.redis.bus import Bus
from shared.settings import SchedulerSettings
from tests.services.scheduler.approval.test_answers import offer
from tests.services.scheduler.approval.test_approvals import approvals_of, ended, waiting
from tests.services.scheduler.conftest import Scheduler
from tests.services.scheduler.status.test_access import asked
from tests.support.clock.fake import FakeClock
from tests.support.network.status_server import free_port

KEY = "a-secret-of-sixteen-or-more"
NOW = 1_790_000_000.0
LINKS = Links("https://dovetail.example/scheduler/", KEY, "one")


def query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A receiver that answers with these statuses, then with 200; its address, and what it got."""
    got: list[dict[str, Any]] = []
    left = list(statuses)

    async def take(request: web.Request) -> web.Response:
        got.append(await request.json())
        return web.Response(status=left.pop(0) if left else 200)

    app = web.Application()
    app.router.add_post("/{secret}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/a-secret-path", got
    finally:
        await runner.cleanup()


def webhook(scheduler: Scheduler, url: str, clock: Clock | None = None) -> Webhook:
    """That of a scheduler, as its settings would make it."""
    links = Links("http://scheduler", KEY, "one")
    made = Webhook(url, "127.0.0.1", links, clock or SystemClock())
    approvals_of(scheduler).webhook = made
    return made


def test_a_link_counts_for_its_command_and_answer_until_it_ends() -> None:
    url = LINKS.to("c1", APPROVE, NOW + 60.9)
    assert url.startswith(
        "https://dovetail.example/scheduler/approvals/c1/approve?expires=1790000060&"
    )
    query = query_of(url)
    assert LINKS.refusal("c1", APPROVE, query, now=NOW) == ""
    assert LINKS.refusal("c1", APPROVE, query, now=NOW + 60) == OVER
    for id_, answer in (("c1", REJECT), ("c2", APPROVE)):
        assert LINKS.refusal(id_, answer, query, now=NOW) == WRONG


@pytest.mark.parametrize(
    "change",
    [
        {"expires": "1790009999"},
        {"expires": "never"},
        {"expires": "\n1790000060"},
        {"signature": ""},
        {"signature": "ä"},
        {"signature": "0" * 64},
    ],
)
def test_a_changed_link_does_not_count(change: dict[str, str]) -> None:
    query = query_of(LINKS.to("c1", APPROVE, NOW + 60)) | change
    assert LINKS.refusal("c1", APPROVE, query, now=NOW) == WRONG


@pytest.mark.parametrize(
    "other", [Links(LINKS.base, "another-secret-of-many", "one"), Links(LINKS.base, KEY, "two")]
)
def test_links_of_another_key_or_cluster_do_not_count(other: Links) -> None:
    query = query_of(other.to("c1", APPROVE, NOW + 60))
    assert LINKS.refusal("c1", APPROVE, query, now=NOW) == WRONG


async def test_the_webhook_gets_the_change_and_both_links(scheduler: Scheduler, kube: Kube) -> None:
    async with receiver() as (url, got):
        sender = webhook(scheduler, url)
        one = await offer(scheduler, kube)
        await sender.step()
        await sender.step()
    (message,) = got
    assert message["command"]["id"] == one["id"]
    assert message["command"]["goes"] == one["goes"]
    assert set(message["links"]) == {APPROVE, REJECT}
    assert "- of-default m5.x004 on-demand" in message["text"].splitlines()
    assert message["links"][APPROVE] in message["text"]
    assert sender.problem == ""


async def test_a_receiver_that_refuses_is_asked_again_and_its_path_is_told_to_nobody(
    scheduler: Scheduler, kube: Kube
) -> None:
    clock = FakeClock(wall=SystemClock().now())
    async with receiver(500, 302) as (url, got):
        sender = webhook(scheduler, url, clock)
        await offer(scheduler, kube)
        for _ in range(3):
            await sender.step()
            await sender.step()
            clock.advance(10)
    assert len(got) == 3
    assert sender.problem == ""
    async with receiver(500) as (url, got):
        sender = webhook(scheduler, url, clock)
        sender.offered(next(iter(approvals_of(scheduler).offers.values())))
        await sender.step()
    assert sender.problem == "approvals are not sent to 127.0.0.1: it answered 500"
    clock.advance(10)
    await sender.step()
    assert "it does not answer" in sender.problem
    assert "a-secret-path" not in sender.problem
    clock.advance(86_400)
    await sender.step()
    assert not sender._due, "the command has ended"


async def test_the_link_shows_the_change_and_only_its_button_answers(
    scheduler: Scheduler, kube: Kube, bus: Bus, tmp_path: Path
) -> None:
    """Without a token, whatever QUESTIONS says."""
    links = Links("http://scheduler", KEY, "one")
    webhook(scheduler, "http://127.0.0.1:1/")
    one = await offer(scheduler, kube)
    path = urlsplit(links.to(one["id"], APPROVE, SystemClock().now() + 600))
    address = f"{path.path}?{path.query}"
    async with asked("off", scheduler, bus, tmp_path) as (client, _):
        for _ in range(2):
            async with client.get(address) as page:
                text = await page.text()
                assert (page.status, page.content_type) == (200, "text/html")
                assert page.headers["Cache-Control"] == "no-store"
                assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
            assert '<form method="post"><button>Approve</button></form>' in text
            assert "- of-default m5.x004 on-demand" in text
        await approvals_of(scheduler).load()
        assert waiting(scheduler)[0]["answer"] is None, "looking answers nothing"
        async with client.post(address) as page:
            assert page.status == 200
            assert "Approved by signed link of the webhook 127.0.0.1" in await page.text()
        async with client.post(address) as page:
            assert page.status == 409, "the first answer counts"
        async with client.get(address) as page:
            assert "<button>" not in await page.text()
    (known,) = (await approvals_of(scheduler).report())["waiting"]
    answer = known["answer"]
    assert (answer["approved"], answer["verified"]) == (True, False)
    assert answer["who"] == "signed link of the webhook 127.0.0.1"
    await scheduler.disruption.step()
    assert [found["outcome"] for found in ended(scheduler)] == ["started"]


async def test_wrong_links_answer_nothing(
    scheduler: Scheduler, kube: Kube, bus: Bus, tmp_path: Path
) -> None:
    links = Links("http://scheduler", KEY, "one")
    webhook(scheduler, "http://127.0.0.1:1/")
    one = await offer(scheduler, kube)
    good = urlsplit(links.to(one["id"], REJECT, SystemClock().now() + 600))
    over = urlsplit(links.to(one["id"], REJECT, SystemClock().now() - 1))
    other = urlsplit(links.to("c0ffee", REJECT, SystemClock().now() + 600))
    async with asked("open", scheduler, bus, tmp_path) as (client, _):
        for path, status in (
            (f"/approvals/{one['id']}/approve?{good.query}", 403),
            (f"/approvals/{one['id']}/reject?{over.query}", 403),
            (f"/approvals/{one['id']}/reject", 403),
            (f"/approvals/{one['id']}/delete?{good.query}", 404),
            (f"{other.path}?{other.query}", 404),
            (f"/approvals/{one['id']}/approve?{urlencode({'id': 'x', 'answer': 'reject'})}", 403),
        ):
            async with client.post(path) as page:
                assert page.status == status, path
    await approvals_of(scheduler).load()
    (known,) = approvals_of(scheduler).offers.values()
    assert known.outcome is Outcome.WAITING


def test_texts_of_a_page_are_escaped() -> None:
    page = _html(200, "<script>", ["<b>"], "Approve").body.decode()
    assert "<script>" not in page
    assert "&lt;b&gt;" in page


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"approval_webhook": "https://chat.example/x"}, "needs APPROVAL_URL"),
        (
            {"approval_webhook": "https://chat.example/x", "approval_url": "https://d"},
            "APPROVAL_KEY",
        ),
        ({"approval_webhook": "chat.example"}, "must be an http or https URL"),
    ],
)
def test_settings_that_do_not_fit_are_named(given: dict[str, str], text: str) -> None:
    settings = SchedulerSettings(cluster_name="one", **given)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=text):
        webhook_of(settings, SystemClock())


def test_a_shadow_tells_nobody() -> None:
    given = {"approval_webhook": "https://chat.example/x", "shadow": True}
    assert webhook_of(SchedulerSettings(cluster_name="one", **given), SystemClock()) is None  # type: ignore[arg-type]


@pytest.mark.slow
async def test_who_answered_is_behind_the_token(
    scheduler: Scheduler, kube: Kube, bus: Bus, tmp_path: Path
) -> None:
    one = await offer(scheduler, kube)
    async with asked("open", scheduler, bus, tmp_path) as (client, _):
        body = {"approved": False, "user": "ann", "reason": "it is my birthday"}
        async with client.post(f"/approvals/{one['id']}", json=body) as response:
            assert response.status == 200
        async with client.get("/status") as response:
            open_text = await response.text()
        async with client.get("/approvals") as response:
            private = await response.json()
    assert "ann" not in open_text
    assert "birthday" not in open_text
    assert private["waiting"][0]["answer"]["who"] == "ann"
    for mode, status in (("authenticated", 401), ("off", 403)):
        async with (
            asked(mode, scheduler, bus, tmp_path) as (client, _),
            client.get("/approvals") as response,
        ):
            assert response.status == status
