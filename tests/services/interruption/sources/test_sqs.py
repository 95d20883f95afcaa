"""The queue as a source, by the emulator's SQS (INT-01..04, ACC-40, ACC-77, ACC-78)."""

from __future__ import annotations

import asyncio
import urllib.parse
import urllib.request

import pytest

from services.interruption.notices.notice import NoticeKind
from services.interruption.service import _missing
from services.interruption.sources import sqs as module
from services.interruption.sources.sqs import UNREADABLE, SqsSource
from shared.cloud.client.session import Cloud
from shared.cloud.sqs import Sqs
from shared.errors import DovetailError, Unauthorized
from tests.services.conftest import CLUSTER, Control
from tests.services.interruption.conftest import INSTANCES, World
from tests.support.waiting import wait_until

DELETED = "karpenter_interruption_deleted_messages_total"
RECEIVED = "karpenter_interruption_received_messages_total"
FOREIGN = "i-00000000000000000"


def interrupt(control: Control, *instances: str) -> None:
    for instance in instances:
        control.post("interruptions", kind="spot", instanceId=instance, foreign=True)


async def queue_length(source: SqsSource) -> int:
    messages = await source.sqs.receive(source.url, wait_seconds=0, visibility_seconds=0)
    return len(messages)


async def send(cloud: Cloud, aws_url: str, body: str) -> None:
    """Put a body into the queue that no rule would put there."""
    url = await cloud.sqs.queue_url("dovetail-local")
    form = urllib.parse.urlencode({"Action": "SendMessage", "QueueUrl": url, "MessageBody": body})
    region = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-west-2/sqs/aws4_request"}
    request = urllib.request.Request(url, data=form.encode(), headers=region)

    def post() -> None:
        with urllib.request.urlopen(request, timeout=60):
            return

    await asyncio.to_thread(post)


async def test_a_message_is_deleted_once_kubernetes_knows(
    world: World, cloud: Cloud, control: Control
) -> None:
    """INT-03, INT-04, ACC-77, ACC-78: one of ours twice, and a foreign one."""
    ours = INSTANCES["Machine"]
    interrupt(control, ours, ours, FOREIGN)
    source = world.queue_source(cloud)
    async with world.running(source):
        await wait_until(lambda: world.counted(DELETED) == 3, "all are deleted")
    assert await world.is_deleted("Machine")
    assert world.actions.deleted == 1
    assert world.counted(RECEIVED, message_type=NoticeKind.SPOT) == 3
    assert await queue_length(source) == 0


async def test_what_cannot_be_read_is_kept_and_deleted(
    world: World, cloud: Cloud, control: Control, aws_emulator_url: str
) -> None:
    """INT-04, ACC-77: its first 4 KiB are among the dead letters; the others are handled."""
    await send(cloud, aws_emulator_url, '{"detail": ' + "x" * 5000)
    interrupt(control, INSTANCES["Machine"])
    source = world.queue_source(cloud)
    async with world.running(source):
        await wait_until(lambda: world.counted(DELETED) == 2, "both are deleted")
    (letter,) = await world.letters.newest(10)
    assert letter.fields[b"body"] == (b'{"detail": ' + b"x" * 5000)[:4096]
    assert "not JSON" in letter.error
    assert world.counted(RECEIVED, message_type=UNREADABLE) == 1
    assert await world.is_deleted("Machine")


async def test_while_redis_is_away_what_cannot_be_read_comes_again(
    world: World, cloud: Cloud, control: Control, aws_emulator_url: str
) -> None:
    """Deleted only when it was kept."""
    await send(cloud, aws_emulator_url, "{")
    source, tried = world.queue_source(cloud), []

    async def bury(message: str, body: bytes, error: Exception) -> None:
        tried.append(message)
        raise DovetailError("no answer")

    source.bury = bury
    async with world.running(source):
        await wait_until(lambda: tried, "it was tried")
    assert world.counted(DELETED) == 0


async def test_a_full_poll_calls_the_other_pollers(
    world: World, cloud: Cloud, control: Control
) -> None:
    """A storm is read by several; SQS may give one message to two of them."""
    interrupt(control, *(f"i-{n:017x}" for n in range(25)))
    source = world.queue_source(cloud)
    async with world.running(source):
        await wait_until(lambda: world.counted(DELETED) >= 25, "all are deleted")
    assert await queue_length(source) == 0


@pytest.mark.slow
async def test_a_missing_queue_is_said_and_looked_for_again(
    world: World, cloud: Cloud, control: Control
) -> None:
    """OPS-12: it says which variable to mend; once it is there it is read."""
    source = world.queue_source(cloud)
    source.settings = world.settings.model_copy(update={"interruption_queue": "nowhere"})
    interrupt(control, FOREIGN)
    async with world.running(source):
        await wait_until(lambda: source.problem, "the problem")
        (reason,) = _missing(source)
        assert "nowhere does not exist" in reason
        assert "INTERRUPTION_QUEUE" in reason
        source.settings = world.settings
        await wait_until(lambda: world.counted(DELETED) == 1, "it is read")
    assert _missing(source) == []


class Forbidden(Sqs):
    """What SQS says to a role that may not."""

    def __init__(self) -> None:
        self.asked = 0

    async def queue_url(self, name: str) -> str:
        self.asked += 1
        raise Unauthorized("sqs:GetQueueUrl failed: allow sqs:GetQueueUrl", code="AccessDenied")


async def test_a_forbidden_queue_makes_the_service_unready_and_is_tried_again(
    world: World, cloud: Cloud, control: Control
) -> None:
    source = world.queue_source(cloud)
    source.sqs = forbidden = Forbidden()
    async with world.running(source):
        await wait_until(lambda: forbidden.asked >= 2, "it was tried again")
    assert "allow sqs:GetQueueUrl" in _missing(source)[0]


async def test_messages_that_may_not_be_deleted_make_the_service_unready_until_they_may(
    world: World, cloud: Cloud, control: Control
) -> None:
    """They are acted on all the same, and come again and again."""
    source = world.queue_source(cloud)
    source.url = await cloud.sqs.queue_url(CLUSTER)
    denied = {"action": "DeleteMessageBatch", "code": "AccessDenied", "status": 403, "count": 1}
    control.post("faults", **denied)
    interrupt(control, INSTANCES["Machine"])
    async with world.running(source):
        await wait_until(lambda: source.undeleted, "the problem")
        assert "allow sqs:DeleteMessage" in _missing(source)[0]
        interrupt(control, FOREIGN)
        await wait_until(lambda: world.counted(DELETED) >= 1, "another is deleted")
        await wait_until(lambda: not _missing(source), "it may again")
    assert await world.is_deleted("Machine")


@pytest.mark.slow
async def test_a_queue_that_goes_and_comes_back_is_said_and_read_again(
    world: World, cloud: Cloud, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    """INT-01: in the middle of the work; one line, and nothing to restart."""
    gone = {"action": "ReceiveMessage", "code": "QueueDoesNotExist", "status": 400, "count": 2}
    source = world.queue_source(cloud)
    async with world.running(source):
        interrupt(control, FOREIGN)
        await wait_until(lambda: world.counted(DELETED) == 1, "it reads")
        control.post("faults", **gone)
        await wait_until(lambda: _missing(source), "the problem")
        assert f"{CLUSTER} does not exist" in _missing(source)[0]
        interrupt(control, INSTANCES["Machine"])
        await wait_until(lambda: world.counted(DELETED) == 2, "it reads again")
        assert _missing(source) == []
    assert capsys.readouterr().out.count("cannot read the interruption queue") == 1


async def test_an_empty_setting_idles_with_one_line_and_is_ready(
    world: World, cloud: Cloud, control: Control, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """INT-01, ACC-40; a queue that is named later is read without a restart (OPS-04)."""
    monkeypatch.setattr(module, "SETTING_SECONDS", 0.01)
    source = world.queue_source(cloud)
    source.settings = world.settings.model_copy(update={"interruption_queue": ""})
    interrupt(control, FOREIGN)
    async with world.running(source):
        await wait_until(lambda: source.last_progress > 0, "the first look")
        first = source.last_progress
        await wait_until(lambda: source.last_progress > first, "another look")
        assert _missing(source) == []
        assert capsys.readouterr().out.count("INTERRUPTION_QUEUE is empty") == 1
        source.settings = world.settings
        await wait_until(lambda: world.counted(DELETED) == 1, "it is read")
