"""Unreadable messages are kept once, whenever the service is killed (INT-04, ACC-77)."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from functools import partial

import pytest

from bench.stacks.sqs_queue import Queue
from services.interruption.directory import Directory
from services.interruption.notices.backlog import Backlog
from services.interruption.sources import sqs as module
from services.interruption.sources.sqs import DEAD_LETTER_BYTES, SqsSource, keeping
from shared.cloud.sqs import QueueMessage, Sqs
from shared.concurrency.clock import SystemClock
from shared.kube.machines import Machines
from shared.metrics import Metrics
from shared.redis.bus import BadMessage, Bus
from shared.redis.bus.dead_letters import DeadLetters
from shared.redis.streams import INTERRUPTIONS
from shared.settings import InterruptionSettings, read
from tests.support.waiting import wait_until

UNREADABLE = ["{", '{"detail": ', "{"]
"""Two of them alike: they are two messages, and two letters."""


@dataclass
class Near(Sqs):
    """The benchmark's queue without a network; what was handed out comes again at once."""

    queue: Queue

    async def queue_url(self, name: str) -> str:
        return name

    async def receive(
        self, url: str, *, wait_seconds: int = 0, maximum: int = 10, visibility_seconds: int = 0
    ) -> list[QueueMessage]:
        await asyncio.sleep(0.01)
        found = await self.queue.receive(maximum, 0, 0.0)
        return [
            QueueMessage(one["MessageId"], one["ReceiptHandle"], one["Body"], 0.0) for one in found
        ]

    async def delete(self, url: str, receipts: object) -> tuple[str, ...]:
        assert isinstance(receipts, list)
        for receipt in receipts:
            self.queue.delete(receipt)
        return ()


@pytest.fixture
def letters(bus: Bus) -> DeadLetters:
    return bus.dead_letters(INTERRUPTIONS)


def incarnation(queue: Queue, letters: DeadLetters, metrics: Metrics) -> SqsSource:
    """One life of the service's source, with nothing in its memory."""
    clock = SystemClock()
    settings = read(
        InterruptionSettings, cluster_name="c", aws_region="us-west-2", interruption_queue="c"
    )
    directory = Directory(Machines(None), clock, partial(asyncio.sleep, 0))  # type: ignore[arg-type]
    return SqsSource(
        settings, Near(queue), Backlog(), directory, keeping(letters), clock, random.Random(1),
        metrics,
    )  # fmt: skip


async def test_a_kill_between_keeping_and_deleting_leaves_one_letter(
    letters: DeadLetters, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first life keeps them all and deletes none; the next one finds them in the queue again."""
    monkeypatch.setattr(module.log, "error", lambda *_args, **_fields: None)
    queue, stop = Queue(), asyncio.Event()
    queue.send(UNREADABLE)
    first = asyncio.create_task(incarnation(queue, letters, metrics).run(stop))
    kept = 0

    async def all_kept() -> bool:
        nonlocal kept
        kept = await letters.count()
        return kept >= len(UNREADABLE)

    await wait_until(all_kept, "all are kept")
    first.cancel()
    assert len(queue.bodies) == len(UNREADABLE)
    second = incarnation(queue, letters, metrics)
    async with asyncio.TaskGroup() as group:
        for run in (second.run, second.run_deletions):
            group.create_task(run(stop))
        await wait_until(lambda: not queue.bodies, "all are deleted")
        stop.set()
    found = await letters.newest(100)
    assert sorted(letter.fields[b"body"].decode() for letter in found) == sorted(UNREADABLE)


async def test_a_letter_is_known_by_its_message_and_its_body(letters: DeadLetters) -> None:
    """An id that comes with another body is another message: nothing is lost by a queue that counts from one again."""
    bury = keeping(letters)
    fault = BadMessage("not JSON")
    for message, body in [("a", b"{"), ("a", b"{"), ("b", b"{"), ("a", b"["), ("b", b"{")]:
        await bury(message, body[:DEAD_LETTER_BYTES], fault)
    found = await letters.newest(100)
    assert sorted((one.source, one.fields[b"body"]) for one in found) == [
        ("sqs/a", b"["),
        ("sqs/a", b"{"),
        ("sqs/b", b"{"),
    ]
    assert {(one.group, one.error) for one in found} == {
        ("interruption", "BadMessage: not JSON"),
    }
