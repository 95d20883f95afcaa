"""SQS: the queue to which EventBridge sends interruption notices (docs/spec/interruption.md).

Messages arrive at least once and in any order. A message that is not deleted within its visibility timeout is
delivered again, so a delete or an extension that fails is harmless and only logged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from shared.cloud.client.calls import AwsService
from shared.errors import DovetailError, NotFound, TransientError, Unauthorized
from shared.log import get_logger

log = get_logger(__name__)

BATCH = 10
"""SQS's own limit for one receive, delete or change of visibility."""
LONGEST_WAIT_SECONDS = 20
NO_RECEIPT = "bm8gc3VjaCByZWNlaXB0"


class QueueMessage(msgspec.Struct, frozen=True):
    """``receipt`` identifies this delivery for ``delete``. ``sent_at``: seconds since the epoch."""

    id: str
    receipt: str
    body: str
    sent_at: float


class Sqs(AwsService):
    """Receives, hides and deletes messages; only EventBridge sends them."""

    async def queue_url(self, name: str) -> str:
        """The URL of a queue. Raises NotFound for an unknown queue."""
        return str((await self._calls.read("get_queue_url", QueueName=name))["QueueUrl"])

    async def receive(
        self,
        url: str,
        *,
        wait_seconds: int = LONGEST_WAIT_SECONDS,
        maximum: int = BATCH,
        visibility_seconds: int = 20,
    ) -> list[QueueMessage]:
        """Up to ``maximum`` (1-10) messages; waits at most ``wait_seconds`` (0-20) for the first one."""
        answer = await self._calls.read(
            "receive_message",
            QueueUrl=url,
            MaxNumberOfMessages=min(max(maximum, 1), BATCH),
            WaitTimeSeconds=min(max(wait_seconds, 0), LONGEST_WAIT_SECONDS),
            VisibilityTimeout=visibility_seconds,
            MessageSystemAttributeNames=["SentTimestamp"],
        )
        return [
            QueueMessage(
                id=message["MessageId"],
                receipt=message["ReceiptHandle"],
                body=message.get("Body", ""),
                sent_at=_sent_at(message.get("Attributes") or {}),
            )
            for message in answer.get("Messages") or ()
        ]

    async def delete(self, url: str, receipts: Sequence[str]) -> tuple[str, ...]:
        """Delete deliveries; returns the receipts that SQS did not delete (their messages are delivered again)."""
        return await self._each_batch("delete_message_batch", url, receipts, {})

    async def hide(self, url: str, receipts: Sequence[str], seconds: int) -> tuple[str, ...]:
        """Let the messages be visible again ``seconds`` from now; returns the receipts that SQS refused: their messages
        are visible already, or deleted."""
        wanted = {"VisibilityTimeout": seconds}
        return await self._each_batch("change_message_visibility_batch", url, receipts, wanted)

    async def _each_batch(
        self, operation: str, url: str, receipts: Sequence[str], wanted: Mapping[str, int]
    ) -> tuple[str, ...]:
        """The receipts for which the operation failed."""
        failed: list[str] = []
        for chunk in _chunks(receipts):
            entries = [{"Id": str(i), "ReceiptHandle": r, **wanted} for i, r in enumerate(chunk)]
            answer = await self._calls.write(operation, QueueUrl=url, Entries=entries)
            done = {one["Id"] for one in answer["Successful"]}
            failed += [receipt for i, receipt in enumerate(chunk) if str(i) not in done]
            refused = Counter(str(failure.get("Code")) for failure in answer.get("Failed") or ())
            if refused:
                log.warning("SQS refused", operation=operation, codes=dict(refused))
        return tuple(failed)

    async def attributes(self, url: str) -> dict[str, str]:
        """All attributes of a queue, including its policy. Raises NotFound and Unauthorized."""
        answer = await self._calls.read(
            "get_queue_attributes", QueueUrl=url, AttributeNames=["All"]
        )
        return {str(name): str(value) for name, value in (answer.get("Attributes") or {}).items()}

    async def may_delete(self, url: str) -> None:
        """Check the permission to delete, with a receipt that no message has. Raises Unauthorized."""
        await self._try_without_receipt("delete_message", url, {})

    async def may_hide(self, url: str) -> None:
        """Check the permission to change a message's visibility, likewise. Raises Unauthorized."""
        wanted = {"VisibilityTimeout": 0}
        await self._try_without_receipt("change_message_visibility", url, wanted)

    async def _try_without_receipt(
        self, operation: str, url: str, wanted: Mapping[str, Any]
    ) -> None:
        try:
            await self._calls.write(operation, QueueUrl=url, ReceiptHandle=NO_RECEIPT, **wanted)
        except (TransientError, Unauthorized, NotFound):
            raise
        except DovetailError:
            return  # SQS refused the receipt, so the caller is allowed


def _sent_at(attributes: Mapping[str, str]) -> float:
    """The time in seconds; 0 for an unreadable one, because the message itself is still useful."""
    text = attributes.get("SentTimestamp", "")
    return int(text) / 1000 if text.isascii() and text.isdigit() else 0.0


def _chunks(receipts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(receipts), BATCH):
        yield receipts[start : start + BATCH]
