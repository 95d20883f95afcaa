"""SQS as Dovetail uses it, by the emulator (INT-03, INT-04)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.cloud.client.session import Cloud
from shared.errors import NotFound, Unauthorized

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUEUE = "dovetail-local"


@pytest.fixture
def messages(control: Any) -> Any:
    """``await messages(n)``: put n messages into the queue, which is empty before."""

    async def put(count: int) -> None:
        await control.post("reset", {})
        await control.post("messages", {"body": "{}", "count": count})

    return put


async def test_messages_are_handed_out_in_tens_with_the_time_they_were_sent(
    cloud: Cloud, messages: Any
) -> None:
    await messages(12)
    url = await cloud.sqs.queue_url(QUEUE)
    first = await cloud.sqs.receive(url, wait_seconds=0)
    second = await cloud.sqs.receive(url, wait_seconds=0)
    assert (len(first), len(second)) == (10, 2)
    assert all(one.body == "{}" and one.sent_at > 1e9 and one.id for one in first)
    assert len({one.receipt for one in first + second}) == 12
    assert await cloud.sqs.receive(url, wait_seconds=0) == []


async def test_more_than_ten_are_deleted_in_several_calls(
    cloud: Cloud, control: Any, messages: Any
) -> None:
    await messages(12)
    url = await cloud.sqs.queue_url(QUEUE)
    found = [
        one for _ in range(2)
        for one in await cloud.sqs.receive(url, wait_seconds=0, visibility_seconds=0)
    ]  # fmt: skip
    receipts = {one.id: one.receipt for one in found}
    assert await cloud.sqs.delete(url, [*receipts.values()]) == ()
    left = 12 - len(receipts)
    assert len(await cloud.sqs.receive(url, wait_seconds=0)) == left


@pytest.mark.slow
async def test_what_is_not_deleted_is_visible_again(cloud: Cloud, messages: Any) -> None:
    """INT-04: when messages are deleted."""
    await messages(1)
    url = await cloud.sqs.queue_url(QUEUE)
    (first,) = await cloud.sqs.receive(url, wait_seconds=0, visibility_seconds=1)
    (again,) = await cloud.sqs.receive(url, wait_seconds=5)
    assert again.id == first.id
    assert again.receipt != first.receipt


async def test_a_receipt_that_sqs_does_not_know_is_reported(cloud: Cloud, messages: Any) -> None:
    """The message behind it comes again; that is harmless."""
    await messages(1)
    url = await cloud.sqs.queue_url(QUEUE)
    (one,) = await cloud.sqs.receive(url, wait_seconds=0)
    assert await cloud.sqs.delete(url, [one.receipt, "nonsense"]) == ("nonsense",)


@pytest.mark.slow
async def test_what_is_hidden_again_stays_hidden_for_longer(cloud: Cloud, messages: Any) -> None:
    """More than one batch; the other messages are visible again before them."""
    await messages(13)
    url = await cloud.sqs.queue_url(QUEUE)
    found = [
        one for _ in range(2)
        for one in await cloud.sqs.receive(url, wait_seconds=0, visibility_seconds=1)
    ]  # fmt: skip
    assert await cloud.sqs.hide(url, [one.receipt for one in found[:11]], 60) == ()
    again: set[str] = set()
    while len(again) < 2:
        again |= {one.id for one in await cloud.sqs.receive(url, wait_seconds=5)}
    assert again == {one.id for one in found[11:]}
    assert await cloud.sqs.receive(url, wait_seconds=0) == []


@pytest.mark.slow
async def test_what_is_visible_already_is_not_hidden(cloud: Cloud, messages: Any) -> None:
    """Another reader may have it: the older receipt changes nothing for them, and a deleted message is gone."""
    await messages(2)
    url = await cloud.sqs.queue_url(QUEUE)
    old, gone = await cloud.sqs.receive(url, wait_seconds=0, visibility_seconds=1)
    await cloud.sqs.delete(url, [gone.receipt])
    (new,) = await cloud.sqs.receive(url, wait_seconds=5, visibility_seconds=60)
    refused = (old.receipt, gone.receipt)
    assert await cloud.sqs.hide(url, [*refused, new.receipt], 0) == refused
    (last,) = await cloud.sqs.receive(url, wait_seconds=0, visibility_seconds=0)
    assert await cloud.sqs.hide(url, [last.receipt], 60) == (last.receipt,)


async def test_a_queue_that_is_missing_or_forbidden_is_named(cloud: Cloud, control: Any) -> None:
    with pytest.raises(NotFound):
        await cloud.sqs.queue_url("nowhere")
    await control.fault("GetQueueUrl", "AccessDenied", status=403)
    with pytest.raises(Unauthorized, match="sqs:GetQueueUrl"):
        await cloud.sqs.queue_url(QUEUE)
