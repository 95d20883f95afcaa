"""A fast SQS queue for benchmarks: the AWS emulator visits every message on every call, too slow for 15,000 messages.

It implements the part of SQS's JSON protocol that Dovetail uses: standard queue, long poll, visibility timeout,
receipts per delivery, batches. The receipt of an older delivery still deletes its message, as on AWS.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

JSON = "application/x-amz-json-1.0"
Json = dict[str, Any]


class Queue:
    """Messages by id. Each one is visible, or received until its visibility timeout ends."""

    def __init__(self) -> None:
        self.bodies: dict[str, tuple[str, float]] = {}
        """Message id -> (body, time of sending in seconds since the epoch), for messages that are not deleted."""
        self.deliveries = self.renewals = 0
        self._line: deque[str] = deque()
        self._held: list[tuple[float, str]] = []
        """(when it becomes visible, message id); only the time in ``_hidden_until`` counts."""
        self._hidden_until: dict[str, float] = {}
        self._numbers = itertools.count()
        self._news = asyncio.Event()

    def send(self, bodies: Iterable[str]) -> None:
        """Adds messages with these bodies."""
        now = time.time()
        for body in bodies:
            name = f"message-{next(self._numbers)}"
            self.bodies[name] = (body, now)
            self._line.append(name)
        self._news.set()

    async def receive(
        self, most: int, wait_seconds: float, visibility_seconds: float
    ) -> list[Json]:
        """Up to ``most`` messages; waits for the first one."""
        deadline = time.monotonic() + wait_seconds
        while not (found := self._take(most, visibility_seconds)):
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            self._news.clear()
            due = self._held[0][0] - time.monotonic() if self._held else left
            try:
                await asyncio.wait_for(self._news.wait(), max(0.0, min(left, due)))
            except TimeoutError:
                continue
        return found

    def _take(self, most: int, visibility_seconds: float) -> list[Json]:
        now = time.monotonic()
        while self._held and self._held[0][0] <= now:
            due, name = heapq.heappop(self._held)
            if self._hidden_until.get(name) == due:
                self._line.append(name)
        found: list[Json] = []
        while self._line and len(found) < most:
            name = self._line.popleft()
            if name not in self.bodies:
                continue
            body, sent = self.bodies[name]
            self.deliveries += 1
            self._hide(name, now + visibility_seconds)
            found.append(
                {
                    "MessageId": name,
                    "ReceiptHandle": f"{name}/{self.deliveries}",
                    "Body": body,
                    "Attributes": {"SentTimestamp": str(int(sent * 1000))},
                }
            )
        return found

    def hide(self, receipt: str, seconds: float) -> bool:
        """Lets the message of this delivery be visible again ``seconds`` from now; False: it is visible or deleted."""
        name = receipt.split("/")[0]
        now = time.monotonic()
        if name not in self.bodies or self._hidden_until.get(name, 0.0) <= now:
            return False
        self._hide(name, now + seconds)
        self.renewals += 1
        return True

    def _hide(self, name: str, until: float) -> None:
        self._hidden_until[name] = until
        heapq.heappush(self._held, (until, name))

    def delete(self, receipt: str) -> None:
        """Deletes the message of this delivery."""
        name = receipt.split("/")[0]
        self.bodies.pop(name, None)
        self._hidden_until.pop(name, None)


@asynccontextmanager
async def served(queue: Queue) -> AsyncIterator[str]:
    """Serves the queue under any name on a free port of this machine; yields the endpoint's URL."""

    async def answer(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        action = request.headers["X-Amz-Target"].rpartition(".")[2]
        found = await _answer(queue, action, asked, str(request.url.origin()))
        body = json.dumps(found).encode()
        return web.Response(body=body, content_type=JSON, headers={"x-amzn-RequestId": "bench"})

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def _answer(queue: Queue, action: str, asked: Json, origin: str) -> Json:
    if action == "GetQueueUrl":
        return {"QueueUrl": f"{origin}/queue/{asked['QueueName']}"}
    if action == "ReceiveMessage":
        limits = (
            asked["MaxNumberOfMessages"],
            asked["WaitTimeSeconds"],
            asked["VisibilityTimeout"],
        )
        return {"Messages": await queue.receive(*limits)}
    if action == "ChangeMessageVisibilityBatch":
        done = [
            queue.hide(one["ReceiptHandle"], one["VisibilityTimeout"]) for one in asked["Entries"]
        ]
        return _batch_answer(asked["Entries"], done)
    if action == "DeleteMessageBatch":
        for entry in asked["Entries"]:
            queue.delete(entry["ReceiptHandle"])
        return _batch_answer(asked["Entries"], [True] * len(asked["Entries"]))
    raise ValueError(f"{action} is not served here")


def _batch_answer(entries: list[Json], done: list[bool]) -> Json:
    refused = {"SenderFault": True, "Code": "MessageNotInflight"}
    return {
        "Successful": [{"Id": one["Id"]} for one, good in zip(entries, done, strict=True) if good],
        "Failed": [
            {"Id": one["Id"], **refused}
            for one, good in zip(entries, done, strict=True)
            if not good
        ],
    }
