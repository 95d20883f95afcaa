"""SQS queues on an event loop: long polls wait on the loop, and messages may arrive twice or out of order.

moto waits for messages in the thread of the request. Here a ReceiveMessage that finds nothing is kept, and asked again
when a message arrives, when a message in flight becomes visible again, or when its wait is over.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from contextvars import copy_context
from random import Random
from typing import Any

import orjson
from moto.sqs.models import Queue, sqs_backends

from local.aws.moto.state import ACCOUNT_ID
from shared.concurrency.clock import Clock

RECEIVE = "AmazonSQS.ReceiveMessage"
LATE_SECONDS = 5.0
"""Longest delay of a message while messages are mixed."""
COPY_SECONDS = 30.0
"""Longest delay of its further copies."""
_ADD = Queue.add_message


class Queues:
    """The arrival of messages in every queue of one region."""

    def __init__(
        self, region: str, clock: Clock, loop: asyncio.AbstractEventLoop, random: Random
    ) -> None:
        self._region, self._clock, self._loop, self._random = region, clock, loop, random
        self._context = copy_context()
        self._polls: dict[LongPoll, None] = {}
        self._copies, self._mixed_until = 1, float("-inf")

    def install(self) -> None:
        """Let every message of this process arrive through this object."""
        Queue.add_message = lambda queue, message: self._arrive(queue, message)

    def mix(self, copies: int, seconds: float) -> None:
        """For ``seconds`` every message arrives ``copies`` times, each time late, so that newer ones overtake it; 0: it
        is lost."""
        self._copies, self._mixed_until = copies, self._loop.time() + seconds

    def _arrive(self, queue: Any, message: Any) -> None:
        if self._loop.time() >= self._mixed_until:
            self._add(queue, message)
            return
        if self._copies == 0:
            return
        self._later(queue, message, LATE_SECONDS)
        for _ in range(self._copies - 1):
            self._later(queue, copy.deepcopy(message), COPY_SECONDS)

    def _later(self, queue: Any, message: Any, most: float) -> None:
        seconds = self._random.random() * most
        self._loop.call_later(seconds, self._add, queue, message, context=self._context)

    def _add(self, queue: Any, message: Any) -> None:
        _ADD(queue, message)
        for poll in list(self._polls):
            poll.look(queue.name)

    def poll(self, poll: LongPoll) -> None:
        """Keep a poll until it is answered."""
        self._polls[poll] = None

    def forget(self, poll: LongPoll) -> None:
        """The poll is answered, or its client is gone."""
        self._polls.pop(poll, None)

    def visible(self, name: str) -> bool:
        """Whether a message of the queue can be received now."""
        queue = self._find(name)
        return queue is not None and bool(queue.messages)

    def length(self, name: str) -> int:
        """How many messages the queue holds, visible or not."""
        queue = self._find(name)
        return len(queue._messages) if queue is not None else 0

    def seconds_until_visible(self, name: str) -> float | None:
        """When the next message in flight becomes visible again; None when there is none."""
        queue = self._find(name)
        times = [one.visible_at for one in queue._messages] if queue is not None else []
        return max(0.0, min(times) / 1000 - self._clock.now()) + 0.002 if times else None

    def _find(self, name: str) -> Any:
        return sqs_backends[ACCOUNT_ID][self._region].queues.get(name)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Run ``callback`` later, in the context of the server."""
        return self._loop.call_later(seconds, callback, context=self._context)


class LongPoll:
    """One ReceiveMessage that waits. ``attempt`` asks moto; with True it answers the client whatever it gets."""

    def __init__(
        self, queues: Queues, name: str, seconds: float, attempt: Callable[[bool], bool]
    ) -> None:
        self._queues, self._name, self._attempt = queues, name, attempt
        self._end = queues.call_later(seconds, lambda: self._try(last=True))
        self._again: asyncio.TimerHandle | None = None
        queues.poll(self)
        self._watch()

    def look(self, name: str) -> None:
        """A message arrived in the queue ``name``."""
        if name == self._name and self._queues.visible(name):
            self._try(last=False)

    def cancel(self) -> None:
        """The client is gone, or it has its answer."""
        self._queues.forget(self)
        self._end.cancel()
        if self._again is not None:
            self._again.cancel()

    def _watch(self) -> None:
        if self._again is not None:
            self._again.cancel()
        seconds = self._queues.seconds_until_visible(self._name)
        if seconds is not None:
            self._again = self._queues.call_later(seconds, lambda: self._try(last=False))

    def _try(self, *, last: bool) -> None:
        if self._attempt(last):
            self.cancel()
        else:
            self._watch()


def without_wait(body: bytes) -> tuple[bytes, str, float]:
    """A ReceiveMessage that does not wait, the name of its queue, and the seconds that it asked to wait."""
    parameters = orjson.loads(body)
    seconds = float(parameters.get("WaitTimeSeconds") or 0)
    name = str(parameters.get("QueueUrl", "")).rpartition("/")[2]
    return orjson.dumps({**parameters, "WaitTimeSeconds": 0}), name, seconds
