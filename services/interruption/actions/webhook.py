"""Tells people over a webhook what was done: in bundles, within bounds, never in anybody's way.

``tell`` only puts into a bounded queue. One post at a time, a few tries each, with growing pauses; what is refused for
good, or finds the queue full, is counted, logged without the address (which is a secret for many receivers) and
forgotten: events and metrics say the same. Everything that happens within a second and is alike is one post.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from string import Template
from typing import Any

import aiohttp
import msgspec

from shared.clock import Clock, rfc3339
from shared.concurrency.backoff import Backoff
from shared.concurrency.waiting import pause, run_until
from shared.domain import labels as keys
from shared.domain.machines import Machine
from shared.domain.nodes import Node
from shared.log import get_logger
from shared.settings import InterruptionSettings

log = get_logger(__name__)

LIMIT = 20_000
GATHER_SECONDS = 1.0
IDLE_SECONDS = 10.0
TRIES = 4
TIMEOUT_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 10.0
LAST_SECONDS = 3.0
NAMES = 10
"""Named in one post; the others are counted."""
REPEATABLE = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class Told(msgspec.Struct, frozen=True):
    """One thing that was done."""

    kind: str
    reason: str
    action: str
    machine: Machine | Node
    """A node that is not ours has no machine and speaks for itself."""
    node: str = ""

    @property
    def alike(self) -> tuple[str, str, str]:
        """What shares a post."""
        return (self.kind, self.reason, self.action)


@dataclass
class Webhook:
    """``tell`` from anywhere, ``run`` posts. An empty WEBHOOK_URL: nothing is gathered."""

    settings: InterruptionSettings
    clock: Clock
    random: Random
    posted: int = 0
    dropped: int = 0
    """Things told that found the queue full, or whose post failed."""
    last_progress: float = 0.0
    _waiting: deque[Told] = field(default_factory=deque)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, told: Told) -> None:
        """Never fails, never waits."""
        if not self.settings.webhook_url:
            return
        if len(self._waiting) >= LIMIT:
            self.dropped += 1
            return
        self._waiting.append(told)
        self._ready.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Post until ``stop``, then what is left, for at most three seconds."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
            while not stop.is_set():
                self.last_progress = self.clock.monotonic()
                await run_until(stop, self._told())
                if self._ready.is_set():
                    await pause(stop, GATHER_SECONDS)
                    await run_until(stop, self._post_all(session))
            try:
                async with asyncio.timeout(LAST_SECONDS):
                    await self._post_all(session)
            except TimeoutError:
                self.dropped += len(self._waiting)

    async def _told(self) -> None:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            return

    async def _post_all(self, session: aiohttp.ClientSession) -> None:
        self._ready.clear()
        while self._waiting:
            bundle = self._next_bundle()
            self.last_progress = self.clock.monotonic()
            body = filled(self.settings.webhook_template, bundle, self._place())
            taken = False
            try:
                taken = await self._post(session, body)
            finally:  # a stop may cut the post short
                self.posted += taken
                self.dropped += 0 if taken else len(bundle)

    def _next_bundle(self) -> list[Told]:
        first = self._waiting[0].alike
        bundle = [told for told in self._waiting if told.alike == first]
        self._waiting = deque(told for told in self._waiting if told.alike != first)
        return bundle

    def _place(self) -> dict[str, str]:
        return {"cluster": self.settings.cluster_name, "time": rfc3339(self.clock.now())}

    async def _post(self, session: aiohttp.ClientSession, body: Any) -> bool:
        backoff = Backoff(self.random, first=0.5, cap=LONGEST_PAUSE_SECONDS)
        problem = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(backoff.next())
            status, problem = await self._try(session, body)
            if not problem:
                return True
            if status and status < 500 and status not in REPEATABLE:
                break
        log.warning("webhook not told", problem=problem, tries=attempt + 1)
        return False

    async def _try(self, session: aiohttp.ClientSession, body: Any) -> tuple[int, str]:
        """(HTTP status or 0, what is wrong; empty: it was taken)."""
        try:
            async with session.post(
                self.settings.webhook_url, json=body, allow_redirects=False
            ) as answer:
                taken = 200 <= answer.status < 300
                return answer.status, "" if taken else f"status {answer.status}"
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return 0, type(error).__name__


def filled(template: str, bundle: list[Told], place: dict[str, str]) -> Any:
    """The template's document with ``$names`` filled in, in texts only: no name can change its form."""
    machines = [told.machine for told in bundle]
    first = bundle[0]
    values = {
        **place,
        "kind": first.kind,
        "reason": first.reason,
        "action": first.action,
        "count": str(len(bundle)),
        "machines": _names([machine.name for machine in machines]),
        "nodes": _names([told.node for told in bundle]),
        "instances": _names([machine.provider_id.rpartition("/")[2] for machine in machines]),
        "types": _names([machine.labels.get(keys.INSTANCE_TYPE, "") for machine in machines]),
        "zones": _names([machine.labels.get(keys.ZONE, "") for machine in machines]),
        "pools": _names([machine.pool for machine in machines]),
    }
    return _filled(json.loads(template), values)


def _filled(part: Any, values: dict[str, str]) -> Any:
    if isinstance(part, str):
        return Template(part).safe_substitute(values)
    if isinstance(part, list):
        return [_filled(one, values) for one in part]
    if isinstance(part, dict):
        return {key: _filled(one, values) for key, one in part.items()}
    return part


def _names(names: list[str]) -> str:
    """Each once, in order, the first ten."""
    distinct = [name for name in dict.fromkeys(names) if name]
    more = f" and {len(distinct) - NAMES} more" if len(distinct) > NAMES else ""
    return ", ".join(distinct[:NAMES]) + more
