"""The calls of one AWS service: errors translated, reads retried, pages bounded.

botocore's own retries are off. Reads are retried here with full jitter while the error is a
``TransientError``; writes are sent once, because only the caller knows the client token to repeat
with (F1) and because one throttled launch must count once (F17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any

from shared.cloud.client.errors import translated
from shared.concurrency.backoff import doubled
from shared.errors import TransientError, Unavailable
from shared.log import get_logger

log = get_logger(__name__)

READ_ATTEMPTS = 5
FIRST_DELAY_SECONDS = 0.2
LONGEST_DELAY_SECONDS = 5.0
MAXIMUM_PAGES = 2000
"""No listing has more pages; a server that never ends its pages must not keep the caller for ever."""

Json = dict[str, Any]
Observed = Callable[[str], AbstractContextManager[None]]
"""AWS's name of an operation -> a context manager around each attempt, which sees its error."""

Requested = Callable[[Callable[[], str]], AbstractContextManager[None]]
"""A function that returns AWS's name of the operation (called at the end) -> a context manager around a whole request
with all its attempts."""


def unobserved(method: object) -> AbstractContextManager[None]:
    """An ``Observed`` or ``Requested`` without effect."""
    del method
    return nullcontext()


@dataclass(eq=False)
class ServiceCalls:
    """Calls on one AWS service. ``open_client`` creates the aiobotocore client at the first call."""

    service: str
    open_client: Callable[[], Awaitable[Any]]
    random: Random
    read_attempts: int = READ_ATTEMPTS
    observed: Observed = unobserved
    requested: Requested = unobserved
    _methods: dict[str, str] = field(default_factory=dict, init=False)
    """Operation -> AWS's name of it, for the operations that were called."""

    async def read(self, operation: str, **parameters: Any) -> Json:
        """A call without side effects. Raises the translated error after ``READ_ATTEMPTS``."""
        with self.requested(lambda: self._methods.get(operation, operation)):
            for attempt in range(1, self.read_attempts):
                try:
                    return await self._attempt(operation, parameters)
                except TransientError as error:
                    delay = self._delay(attempt)
                    log.debug("retrying an AWS read", operation=operation, error=str(error))
                    await asyncio.sleep(delay)
            return await self._attempt(operation, parameters)

    async def write(self, operation: str, *, launching: bool = False, **parameters: Any) -> Json:
        """A call sent exactly once. ``launching``: an unknown error code means LaunchRejected."""
        with self.requested(lambda: self._methods.get(operation, operation)):
            return await self._attempt(operation, parameters, launching=launching)

    async def _attempt(self, operation: str, parameters: Json, *, launching: bool = False) -> Json:
        with translated(self.service, launching=launching):
            client = await self.open_client()
        method = self._methods[operation] = client.meta.method_to_api_mapping[operation]
        permission = f"{self.service}:{method}"
        with self.observed(method), translated(permission, launching=launching):
            answer: Json = await getattr(client, operation)(**parameters)
        return answer

    async def pages(
        self,
        operation: str,
        key: str,
        *,
        each: Callable[[Any], Any] | None = None,
        **parameters: Any,
    ) -> list[Any]:
        """All items under ``key`` of a listing that continues with ``NextToken``.

        ``each`` reduces every item before the next page is read.
        """
        items: list[Any] = []
        token: str | None = None
        for _ in range(MAXIMUM_PAGES):
            page = {"NextToken": token} if token else {}
            answer = await self.read(operation, **parameters, **page)
            found = answer.get(key) or ()
            items.extend(map(each, found) if each else found)
            token = answer.get("NextToken")
            if not token:
                return items
        raise Unavailable(f"{operation} returned more than {MAXIMUM_PAGES} pages", items=len(items))

    def _delay(self, attempt: int) -> float:
        ceiling = doubled(attempt - 1, first=FIRST_DELAY_SECONDS, cap=LONGEST_DELAY_SECONDS)
        return self.random.uniform(0.0, ceiling)


class AwsService:
    """The calls of one AWS service by name and type; each service has a subclass."""

    def __init__(self, calls: ServiceCalls) -> None:
        self._calls = calls
