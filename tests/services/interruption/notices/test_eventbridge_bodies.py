"""Any body at all through the queue source (INT-04, INT-05, ACC-77): read, or counted, kept and deleted.

Bodies are generated from a seed: what EC2 sends, and that with parts replaced, left out, cut off or overwritten. A
plain generator makes 100,000 in seconds; hypothesis, which looks for small examples, is beside it in test_parsers.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from services.interruption.directory import Directory
from services.interruption.notices.backlog import Backlog
from services.interruption.notices.notice import NoticeKind
from services.interruption.sources import sqs as module
from services.interruption.sources.sqs import DEAD_LETTER_BYTES, UNREADABLE, SqsSource
from shared.cloud.sqs import BATCH, QueueMessage, Sqs
from shared.concurrency.clock import SystemClock
from shared.kube.machines import Machines
from shared.metrics import Metrics
from shared.settings import InterruptionSettings, read
from tests.support.waiting import wait_until

SAMPLE, LARGE, SEEDS = 1_000, 20_000, 5
"""A hundred thousand in all: five seeds, so that a failure names one."""
INSTANCE = "i-0123456789abcdef0"
Json = Any
DETAILS: dict[str, tuple[str, dict[str, Json]]] = {
    "EC2 Spot Instance Interruption Warning": (
        "aws.ec2", {"instance-id": INSTANCE, "instance-action": "terminate"},
    ),
    "EC2 Instance Rebalance Recommendation": ("aws.ec2", {"instance-id": INSTANCE}),
    "EC2 Instance State-change Notification": (
        "aws.ec2", {"instance-id": INSTANCE, "state": "stopping"},
    ),
    "EC2 Capacity Reservation Instance Interruption Warning": (
        "aws.ec2", {"instance-id": INSTANCE, "instance-action": "terminate"},
    ),
    "EC2 Instance-terminate Lifecycle Action": (
        "aws.autoscaling",
        {
            "LifecycleActionToken": "87654321-4321-4321-4321-210987654321",
            "AutoScalingGroupName": "workers",
            "LifecycleHookName": "drain",
            "EC2InstanceId": INSTANCE,
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
        },
    ),
    "AWS Health Event": (
        "aws.health",
        {
            "service": "EC2",
            "eventTypeCategory": "scheduledChange",
            "eventArn": "arn:aws:health:us-west-2::event/EC2/retirement/1",
            "startTime": "Wed, 27 Jan 2027 06:00:00 GMT",
            "affectedEntities": [{"entityValue": INSTANCE}, {"entityValue": "i-1"}],
            "statusCode": "open",
        },
    ),
}  # fmt: skip
ODD: tuple[Json, ...] = (
    None, True, 0, -1, 10**30, 1e308, "", " ", "\x00", "\ud800", "i-1", "EC2", "0", "closed", "stopping",
    "9999-12-31T23:59:59Z", "0001-01-01T00:00:00", "2026-02-30T00:00:00Z", "Wed, 99 Jan 2027 06:00:00 GMT",
    "Mon, 01 Jan 0001 00:00:00 -2359", [], {}, [[]], [None], {"": None}, [{"entityValue": None}],
    [{"entityValue": "i-1"}, 5], "x" * 5000,
)  # fmt: skip


def document(rng: random.Random) -> dict[str, Json]:
    """One event as EventBridge writes it."""
    kind = rng.choice(list(DETAILS))
    source, detail = DETAILS[kind]
    return {
        "version": "0", "id": f"event-{rng.randrange(100)}", "detail-type": kind, "source": source,
        "time": "2026-01-01T00:00:00Z", "region": "us-west-2", "resources": [],
        "detail": json.loads(json.dumps(detail)),
    }  # fmt: skip


def change(rng: random.Random, found: dict[str, Json]) -> None:
    """Replace, add or leave out one field, of the event or of its detail."""
    detail = found.get("detail")
    target = detail if isinstance(detail, dict) and rng.random() < 0.6 else found
    name = rng.choice([*target, "statusCode", "eventArn"])
    if rng.random() < 0.3:
        target.pop(name, None)
    else:
        target[name] = copy.deepcopy(rng.choice(ODD))


def garble(rng: random.Random, text: str) -> str:
    """The text cut off, overwritten here and there, wrapped, or something else altogether."""
    ways = (
        lambda: text[: rng.randrange(len(text) + 1)],
        lambda: "".join(rng.choice(string.printable) if rng.random() < 0.02 else c for c in text),
        lambda: f"[{text}]",
        lambda: "[" * rng.choice([1, 200, 5000]),
        lambda: "".join(chr(rng.randrange(0x11000)) for _ in range(rng.randrange(20))),
        lambda: json.dumps(rng.choice(ODD)),
    )
    return rng.choice(ways)()


def told(rng: random.Random, found: dict[str, Json]) -> dict[str, Json]:
    """Mostly as EventBridge tells it; lifecycle hooks may tell by themselves, or over SNS."""
    detail = found.get("detail")
    if rng.random() < 0.9 or not isinstance(detail, dict):
        return found
    own = {**detail, "Service": "AWS Auto Scaling", "Time": found.get("time")}
    return rng.choice((own, {"Type": "Notification", "Message": json.dumps(own)}))


def generated(seed: int, count: int) -> Iterator[str]:
    """``count`` bodies; a third of them as they should be."""
    rng = random.Random(seed)
    for number in range(count):
        found = document(rng)
        for _ in range(rng.choice((0, 1, 2, 4)) if number % 3 else 0):
            change(rng, found)
        text = json.dumps(told(rng, found))
        yield garble(rng, text) if number % 3 == 1 else text


@dataclass
class Fed(Sqs):
    """A queue that handling out each body once, and remembers what was deleted."""

    bodies: Iterator[str]
    handed: int = 0
    deleted: list[str] = field(default_factory=list)

    async def queue_url(self, name: str) -> str:
        return name

    async def receive(self, url: str, **_limits: int) -> list[QueueMessage]:
        await asyncio.sleep(0)
        found = []
        for body in self.bodies:
            found.append(QueueMessage(str(self.handed), str(self.handed), body, 0.0))
            self.handed += 1
            if len(found) == BATCH:
                return found
        if not found:
            await asyncio.sleep(0.01)
        return found

    async def delete(self, url: str, receipts: Any) -> tuple[str, ...]:
        self.deleted += receipts
        return ()


async def feed(seed: int, count: int, metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send ``count`` bodies through a source and check where each one went."""
    monkeypatch.setattr(module.log, "error", lambda *_args, **_fields: None)
    bodies = list(generated(seed, count))
    kept: dict[str, bytes] = {}

    async def bury(message: str, body: bytes, error: Exception) -> None:
        assert str(error)
        kept[message] = body

    queue, backlog, clock = Fed(iter(bodies)), Backlog(limit=count + 1), SystemClock()
    settings = read(
        InterruptionSettings, cluster_name="c", aws_region="us-west-2", interruption_queue="c"
    )
    directory = Directory(Machines(None), clock, partial(asyncio.sleep, 0))  # type: ignore[arg-type]
    source = SqsSource(settings, queue, backlog, directory, bury, clock, random.Random(1), metrics)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for run in (source.run, source.run_deletions):
            group.create_task(run(stop))
        await wait_until(lambda: len(backlog) + len(kept) == count, "all are read")
        stop.set()
    good = [await backlog.take(lambda: 0.0) for _ in range(len(backlog))]
    assert sorted(queue.deleted, key=int) == sorted(kept, key=int)
    assert all(
        kept[name] == bodies[int(name)].encode("utf-8", "replace")[:DEAD_LETTER_BYTES]
        for name in kept
    )
    assert counted(metrics, UNREADABLE) == len(kept)
    assert sum(counted(metrics, kind) for kind in {entry.notice.kind for entry in good}) == len(
        good
    )
    intact = [entry for entry in good if entry.notice.kind != NoticeKind.NO_OP]
    assert len(intact) > count // 3
    assert len(kept) > count // 6


def counted(metrics: Metrics, kind: str) -> float:
    name = "karpenter_interruption_received_messages_total"
    return metrics.registry.get_sample_value(name, {"message_type": kind}) or 0.0


async def test_every_body_is_read_or_counted_kept_and_deleted(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    await feed(SEEDS + 1, SAMPLE, metrics, monkeypatch)


@pytest.mark.nightly
@pytest.mark.timeout(280)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_hundred_thousand_bodies_are_read_or_counted_kept_and_deleted(
    seed: int, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    await feed(seed, LARGE, metrics, monkeypatch)
