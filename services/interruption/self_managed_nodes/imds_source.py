"""The instance's own metadata as a source of notices: for clusters without a queue, one agent on each node.

An announcement stays in the metadata, so notices that were handled are remembered, and others are put again after the
next reading. What may go wrong: the metadata service does not answer, or in a form that cannot be read: ``problem``
says so on /readyz, and it is read again. One document that cannot be read hides no other: a spot notice has 120 s.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from functools import partial
from random import Random

from services.interruption.notices.backlog import Backlog, Entry
from services.interruption.notices.notice import Notice, NoticeKind, rank
from services.interruption.self_managed_nodes.hook_timing import step_for_hook
from services.interruption.self_managed_nodes.imds import Imds
from services.interruption.self_managed_nodes.imds_documents import (
    LIFECYCLE_STATE,
    MAINTENANCE_ID,
    REBALANCE_AT,
    SCHEDULED_EVENTS,
    SPOT_ACTION,
    called_off,
    lifecycle_notice,
    rebalance_notice,
    scheduled_notices,
    spot_notice,
)
from services.interruption.self_managed_nodes.own_node import OwnNode
from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import Clock
from shared.concurrency.waiting import pause
from shared.domain.pools.nodepools import IGNORE
from shared.errors import DovetailError, Unavailable
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.bus import BadMessage
from shared.settings import InterruptionSettings

log = get_logger(__name__)

LONGEST_BACKOFF_SECONDS = 10.0
"""Short: only this agent reads this service, and a spot notice may be waiting in it."""
REPEAT_SECONDS = 20.0
"""A notice that is not handled after this long is put again."""
WAITING_SECONDS = 60.0


@dataclass
class ImdsSource:
    """Reads one instance's metadata into the backlog."""

    settings: InterruptionSettings
    imds: Imds
    backlog: Backlog
    own: OwnNode
    clock: Clock
    random: Random
    metrics: Metrics
    problem: str = ""
    last_progress: float = 0.0
    _put: dict[str, float] = field(default_factory=dict)
    """Notice id -> when it may be put again (monotonic); infinity: it is handled."""

    async def run(self, stop: asyncio.Event) -> None:
        """Read until ``stop``."""
        backoff = Backoff(self.random, first=1.0, cap=LONGEST_BACKOFF_SECONDS)
        while not stop.is_set():
            wait = self.settings.imds_period
            try:
                await self.check()
                self.problem = ""
                backoff.reset()
            except BadMessage as error:
                self._report_problem(error)  # a longer pause would not help
            except DovetailError as error:
                wait = max(wait, backoff.next())
                self._report_problem(error)
            self.last_progress = self.clock.monotonic()
            await pause(stop, wait)

    def _report_problem(self, error: DovetailError) -> None:
        if error.message != self.problem:
            log.error("cannot read the instance metadata", problem=error.message)
        self.problem = error.message

    async def check(self) -> None:
        """Put what is announced now into the backlog. Raises the first failure, after all documents were read."""
        if not self.own.instance:
            await self._identify()
        failure: DovetailError | None = None
        names: set[str] = set()
        for read in (self._spot, self._rebalance, self._lifecycle, self._scheduled):
            try:
                for notice in await read():
                    names.add(notice.id)
                    await self._announce(notice)
            except DovetailError as error:
                failure = failure or error
        if failure is not None:
            raise failure  # nothing is forgotten then: the notice may be in the document that could not be read
        self._put = {name: again for name, again in self._put.items() if name in names}

    async def _identify(self) -> None:
        instance = await self.imds.get("meta-data/instance-id")
        name = self.settings.node_name or await self.imds.get("meta-data/local-hostname") or ""
        if not instance or not name:
            raise Unavailable("the metadata name no instance: set NODE_NAME, check IMDS_ENDPOINT")
        self.own.name, self.own.instance = name.strip(), instance.strip()
        try:
            await self.own.machine(self.own.instance)  # what an earlier agent wrote on it
        except BaseException:
            self.own.instance = ""
            raise
        log.info("reading instance metadata", instance=self.own.instance, node=self.own.name)

    async def _spot(self) -> list[Notice]:
        text = await self.imds.get(SPOT_ACTION)
        now = self.clock.now()
        return [] if text is None else [spot_notice(text, self.own.instance, now=now)]

    async def _rebalance(self) -> list[Notice]:
        text = await self.imds.get(REBALANCE_AT)
        now = self.clock.now()
        return [] if text is None else [rebalance_notice(text, self.own.instance, now=now)]

    async def _lifecycle(self) -> list[Notice]:
        if step_for_hook(self.settings) == IGNORE:
            return []
        text = await self.imds.get(LIFECYCLE_STATE) or ""
        notice = lifecycle_notice(text, self.own.instance, now=self.clock.now())
        return [notice] if notice else []

    async def _scheduled(self) -> list[Notice]:
        text = await self.imds.get(SCHEDULED_EVENTS) or "[]"
        now = self.clock.now()
        scheduled = scheduled_notices(text, self.own.instance, now=now)
        await self._reread_waiting_machine(scheduled)
        return [*scheduled, *called_off(self.own.scheduled(), scheduled, now=now)]

    async def _reread_waiting_machine(self, scheduled: list[Notice]) -> None:
        """The worker may have written an event on the Machine since it was read."""
        names = {notice.id for notice in scheduled}
        if any(name.startswith(MAINTENANCE_ID) and name not in names for name in self._put):
            await self.own.machine(self.own.instance)

    async def _announce(self, notice: Notice) -> None:
        now = self.clock.monotonic()
        if self._put.get(notice.id, now) > now:
            return
        if notice.id not in self._put:
            self.metrics.interruptions_received.labels(notice.kind).inc()
        self._put[notice.id] = now + REPEAT_SECONDS
        entry = Entry(notice, partial(self._done, notice))
        await self.backlog.put(entry, rank(notice, 1))

    def _done(self, notice: Notice) -> None:
        """A scheduled event may have to wait for its lead time, so it is put again every minute."""
        again = (
            self.clock.monotonic() + WAITING_SECONDS
            if notice.kind == NoticeKind.SCHEDULED
            else math.inf
        )
        if notice.id in self._put:
            self._put[notice.id] = again
