"""Posts what was done to a webhook, for people: in bundles, within bounds, and without holding up anybody.

``report`` only puts into a bounded queue. There is one post at a time, with a few tries and growing pauses; a report
that is refused for good, or finds the queue full, is counted, logged without the address (which is a secret for many
receivers) and forgotten: events and metrics say the same. Reports of one second that are alike share a post.
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

from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import Clock, rfc3339
from shared.concurrency.waiting import pause, run_until
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
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


class Report(msgspec.Struct, frozen=True):
    """One action that was taken."""

    kind: str
    reason: str
    action: str
    machine: Machine | Node
    """A self-managed node has no machine and stands for itself."""
    node: str = ""

    @property
    def alike(self) -> tuple[str, str, str]:
        """Reports that are equal in this share a post."""
        return (self.kind, self.reason, self.action)


@dataclass
class Webhook:
    """Call ``report`` from anywhere; ``run`` posts. With an empty WEBHOOK_URL nothing is gathered."""

    settings: InterruptionSettings
    clock: Clock
    random: Random
    posted: int = 0
    dropped: int = 0
    """Reports that found the queue full, or whose post failed."""
    last_progress: float = 0.0
    _waiting: deque[Report] = field(default_factory=deque)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)

    def report(self, report: Report) -> None:
        """Never fails, never waits."""
        if not self.settings.webhook_url:
            return
        if len(self._waiting) >= LIMIT:
            self.dropped += 1
            return
        self._waiting.append(report)
        self._ready.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Post until ``stop``, then what is left, for at most three seconds."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
            while not stop.is_set():
                self.last_progress = self.clock.monotonic()
                await run_until(stop, pause(self._ready, IDLE_SECONDS))
                if self._ready.is_set():
                    await pause(stop, GATHER_SECONDS)
                    await run_until(stop, self._post_all(session))
            try:
                async with asyncio.timeout(LAST_SECONDS):
                    await self._post_all(session)
            except TimeoutError:
                self.dropped += len(self._waiting)

    async def _post_all(self, session: aiohttp.ClientSession) -> None:
        self._ready.clear()
        while self._waiting:
            bundle = self._next_bundle()
            self.last_progress = self.clock.monotonic()
            body = filled(self.settings.webhook_template, bundle, self._place())
            taken = False
            try:
                taken = await self._post(session, body)
            finally:  # also when a stop cuts the post short: its outcome is unknown then
                self.posted += taken
                self.dropped += 0 if taken else len(bundle)

    def _next_bundle(self) -> list[Report]:
        first = self._waiting[0].alike
        bundle = [one for one in self._waiting if one.alike == first]
        self._waiting = deque(one for one in self._waiting if one.alike != first)
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
        log.warning("webhook not posted", problem=problem, tries=attempt + 1)
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


def filled(template: str, bundle: list[Report], place: dict[str, str]) -> Any:
    """The template's document with ``$names`` filled in, in texts only: no name can change its form."""
    machines = [report.machine for report in bundle]
    first = bundle[0]
    values = {
        **place,
        "kind": first.kind,
        "reason": first.reason,
        "action": first.action,
        "count": str(len(bundle)),
        "machines": _names([machine.name for machine in machines]),
        "nodes": _names([report.node for report in bundle]),
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
