"""The interruption benchmark sends the intended messages, through a queue that behaves like SQS."""

from __future__ import annotations

from collections import Counter

from bench.interruption import body_of, faults, instance_id, mix
from bench.report import Row
from bench.stacks.sqs_queue import Queue
from services.interruption.notices.eventbridge import parse
from services.interruption.notices.notice import NoticeKind


def test_the_mix_is_karpenters_in_thirds() -> None:
    kinds = Counter(parse(body_of(number)).kind for number in range(30))
    assert kinds == {NoticeKind.SPOT: 10, NoticeKind.SCHEDULED: 10, NoticeKind.STOPPED: 10}
    assert parse(body_of(7)).instances == (instance_id(7),)


def test_some_are_foreign_some_come_twice_some_cannot_be_read() -> None:
    wanted = mix(1000)
    assert len(wanted.bodies) == 1000
    assert wanted.malformed == 19
    assert len(set(wanted.bodies)) < 1000
    assert instance_id(0) not in wanted.ours
    assert instance_id(1) in wanted.ours
    assert 800 < len(wanted.ours) < 900


def test_a_run_that_loses_touches_or_keeps_twice_is_a_failure() -> None:
    good: Row = {"messages": 100, "lost": 0, "touched": 0, "malformed": 2, "dead letters": 2}
    assert faults(good) == []
    assert faults({**good, "lost": 1, "dead letters": 3}) == [
        "100 messages: 1 lost",
        "100 messages: 3 dead letters of 2 malformed messages",
    ]
    assert faults({**good, "touched": 4, "dead letters": 1})


async def test_what_is_not_deleted_is_handed_out_again() -> None:
    queue = Queue()
    queue.send(["a", "b"])
    (first,) = await queue.receive(1, 0, 0.0)
    (second,) = await queue.receive(1, 0, 60.0)
    assert (first["Body"], second["Body"]) == ("a", "b")
    (again,) = await queue.receive(10, 1, 60.0)
    assert (again["Body"], again["ReceiptHandle"] != first["ReceiptHandle"]) == ("a", True)
    assert await queue.receive(10, 0.01, 60.0) == []
    queue.delete(first["ReceiptHandle"])
    queue.delete(second["ReceiptHandle"])
    assert queue.bodies == {}
