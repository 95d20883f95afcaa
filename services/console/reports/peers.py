"""The other services' ``/status``, read every few seconds, and the scheduler's answers to questions.

A service that does not answer keeps its last document, and ``at`` says how old it is. Nothing here raises for a
service that is away: a console must show exactly that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from shared.concurrency.clock import Clock

POLL_SECONDS = 2.0
STATUS_TIMEOUT_SECONDS = 3.0
QUESTION_TIMEOUT_SECONDS = 70.0
"""The scheduler bounds an explanation to 60 s."""
MOST_REPLICAS_ASKED = 8
MOST_BYTES = 4 << 20
NOT_ASKED = "was not asked yet"
SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption")


@dataclass
class PeerStatus:
    """The last ``/status`` of one service; ``at`` in seconds since the epoch, 0: never answered."""

    document: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0
    problem: str = NOT_ASKED


@dataclass
class Peers:
    """``urls``: service -> base URL of its status port, empty for one that is not known."""

    urls: Mapping[str, str]
    clock: Clock
    token: Callable[[], str] = str
    """For the scheduler's questions, read for each one: the kubelet replaces a ServiceAccount's token; "" for none."""
    statuses: dict[str, PeerStatus] = field(
        default_factory=lambda: {name: PeerStatus() for name in SERVICES}
    )

    async def poll(self) -> None:
        """Read every status once, side by side."""
        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*(self._poll_one(session, name) for name in SERVICES))

    async def _poll_one(self, session: aiohttp.ClientSession, name: str) -> None:
        status = self.statuses[name]
        url = self.urls.get(name, "")
        if not url:
            status.problem = f"its address is not known: set {name.upper()}_URL on the console"
            return
        timeout = aiohttp.ClientTimeout(total=STATUS_TIMEOUT_SECONDS)
        try:
            async with session.get(f"{url.rstrip('/')}/status", timeout=timeout) as response:
                found = _document(await _body(response))
            if response.status != 200:
                raise ValueError(f"it answered {response.status}")
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            status.problem = f"does not answer at {url}: {_words(error)}"
            return
        self.statuses[name] = PeerStatus(found, self.clock.now(), "")

    async def ask_scheduler(
        self, path: str, question: Mapping[str, Any] | None = None
    ) -> tuple[Any, str]:
        """(answer, problem): one of them is empty. By GET without a question, otherwise by POST."""
        url = self.urls.get("scheduler", "").rstrip("/")
        if not url:
            return None, "the scheduler's address is not known: set SCHEDULER_URL on the console"
        try:
            token = self.token()
        except (OSError, ValueError) as error:
            return None, f"the token for the scheduler cannot be read: {error}"
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            for _ in range(MOST_REPLICAS_ASKED):
                status, found = await _asked(f"{url}{path}", question, headers)
                # A Service sends each connection to a replica chosen by chance; some answers are the leader's alone.
                if not found.get("standby"):
                    break
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            return None, f"the scheduler does not answer at {url}: {_words(error)}"
        if status == HTTPStatus.OK:
            return found, ""
        return None, str(found.get("error") or f"the scheduler answered {status}")


async def _asked(
    url: str, question: Mapping[str, Any] | None, headers: Mapping[str, str]
) -> tuple[int, dict[str, Any]]:
    """(status, document) of one request on a connection of its own."""
    timeout = aiohttp.ClientTimeout(total=QUESTION_TIMEOUT_SECONDS)
    method = "GET" if question is None else "POST"
    async with (
        aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
        session.request(method, url, json=question) as response,
    ):
        return response.status, _document(await _body(response))


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = await response.content.read(MOST_BYTES + 1)
    parts = [body]
    size = len(body)
    while body and size <= MOST_BYTES:
        body = await response.content.read(MOST_BYTES + 1 - size)
        parts.append(body)
        size += len(body)
    if size > MOST_BYTES:
        raise ValueError(f"the answer is larger than {MOST_BYTES} bytes")
    return b"".join(parts)


def _document(body: bytes) -> dict[str, Any]:
    found = orjson.loads(body)
    if not isinstance(found, dict):
        raise ValueError("the answer is not a JSON object")
    return found


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if not isinstance(error, aiohttp.ClientConnectorError):
        return str(error) or repr(error)
    number = error.os_error.errno or 0
    if number > 0:
        return os.strerror(number).lower()
    return f"its name cannot be resolved: {error.os_error.strerror or error.os_error}"
