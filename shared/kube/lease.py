"""Leader election by a coordination.k8s.io Lease, with a fencing epoch (F14).

How it works, after client-go: the holder renews every 3 s, with one compare-and-set write of what it wrote last.
The others look as often, and watch the Lease besides: one that its holder frees has a new holder after two requests.
Another candidate may take over when it saw the Lease unchanged for 15 s *on its own monotonic clock* (no wall clocks
are compared, so clock jumps do no harm, F13). The lease ends for its holder 10 s after the *start* of the last
successful renewal, without any task having to run: a process that was suspended and resumed sees ``held`` False at
once. 5 s are left between the two. A renewal that failed is repeated after 1 s, so that one that hangs for 5 s, the
longest that an attempt may take, costs no Lease: at most 3.3 + 5 + 1.1 s are between the starts of the two around it.

A lease alone does not fence: a request that is already sent cannot be revoked. ``epoch``
(leaseTransitions) grows with every change of holder. Write it into the objects that you create; the
service that spends money compares it with ``current_epoch`` right before it does (I9).

What may go wrong: the API server is unreachable (not held after 10 s; retries continue); the outcome of a write is
unknown (the next read shows it); two candidates write at once (compare-and-set, one wins); the Lease is deleted (the
epoch continues from the highest one this process saw; when every process that saw one is gone, it starts at 0 again).
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from shared.concurrency.clock import Clock
from shared.concurrency.tasks import TaskGroup
from shared.concurrency.waiting import pause_unless, run_until
from shared.errors import AlreadyExists, Conflict, DovetailError, NotFound
from shared.kube.client import Kube
from shared.kube.resources import LEASES
from shared.log import get_logger

log = get_logger(__name__)

RELEASE_TIMEOUT_SECONDS = 3.0
WATCH_AGAIN_SECONDS = 30.0
"""Pause after a watch that failed, such as one that the role of an earlier release does not allow."""


SPREAD = (0.9, 1.1)
"""Shares of its period that a pause may last, so that the candidates' looks are spread."""
FAILED_SOONER = 3.0
"""How many times sooner a renewal is repeated that failed."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds; ``duration > renew_deadline > retry_period``, as in client-go. ``retry_period``: between two renewals,
    and between two looks of the others.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 3.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period > 0:
            raise ValueError(f"need duration > renew_deadline > retry_period > 0, got {self}")

    @property
    def longest_attempt(self) -> float:
        """A renewal that is not answered by then has failed."""
        return self.renew_deadline / 2

    def pause(self, *, failed: bool, share: float) -> float:
        """After an attempt of the holder that failed, or after any other one; ``share``: of the period, see SPREAD."""
        return self.retry_period * share / (FAILED_SOONER if failed else 1.0)


@dataclass(frozen=True, slots=True)
class Record:
    """The election fields of a Lease. ``holder`` is empty when the Lease is free."""

    holder: str
    epoch: int
    renewed: str
    version: str


def read_record(lease: dict[str, Any]) -> Record:
    """The election part of a Lease object; missing fields read as a free Lease."""
    spec = lease.get("spec") or {}
    return Record(
        holder=str(spec.get("holderIdentity") or ""),
        epoch=int(spec.get("leaseTransitions") or 0),
        renewed=str(spec.get("renewTime") or ""),
        version=str(lease["metadata"].get("resourceVersion", "")),
    )


async def current_epoch(kube: Kube, name: str, namespace: str) -> int:
    """The current epoch, by a quorum read: work of an older epoch must be refused. Raises NotFound."""
    return read_record(await kube.get(LEASES, name, namespace)).epoch


@dataclass(eq=False)
class Lease:
    """A candidate for a Lease. ``identity`` must be new for every process (pod name and a nonce)."""

    kube: Kube
    name: str
    namespace: str
    identity: str
    clock: Clock
    random: Random
    times: LeaseTimes = LeaseTimes()
    barred_by: str = ""
    """Annotation of the Lease with which it is given up, and not taken again while the annotation is there."""
    shared: bool = False
    """``identity`` is the same in several processes: none of them frees the Lease when it stops."""

    def __post_init__(self) -> None:
        self.acquired = asyncio.Event()
        self._freed = asyncio.Event()
        """Set when the Lease may be taken, for the next look at it."""
        self._stands_by = asyncio.Event()
        """Set while another process holds the Lease."""
        self.last_progress = self.clock.monotonic()
        self._held_until = float("-inf")
        self.epoch = 0
        """The epoch of this process's last term; valid while ``held``."""
        self._highest_epoch = -1
        self._seen: Record | None = None
        self._seen_at = float("-inf")
        self._written: dict[str, Any] | None = None
        """The Lease as this process wrote it last, while it leads."""

    @property
    def held(self) -> bool:
        """Whether this process leads now. Read it right before every action, not once."""
        return self.clock.monotonic() < self._held_until

    async def run(self, stop: asyncio.Event) -> None:
        """Compete for the Lease until ``stop``, then release it. Stop the work that needs the Lease first."""
        try:
            await run_until(stop, self._compete_and_watch())
        finally:
            self._step_down()
            # Release also when the Lease is not held: a write that the stop interrupted may have succeeded.
            if not self.shared:
                await self._release()

    async def _compete_and_watch(self) -> None:
        async with TaskGroup() as group:
            group.create_task(self._compete())
            # A shared Lease is another program's, whose role allows no watch, and nobody frees it at its stop.
            if not self.shared:
                group.create_task(self._watch())

    async def _watch(self) -> None:
        """Notice at once that another process frees the Lease; ``_compete`` would see it seconds later."""
        while True:
            await self._stands_by.wait()
            seconds = self.times.retry_period
            try:
                await self._until_freed(self._seen.version if self._seen else "")
            except DovetailError as error:
                log.debug("cannot watch the lease", lease=self.name, error=str(error))
                seconds = WATCH_AGAIN_SECONDS
            await asyncio.sleep(seconds)

    async def _until_freed(self, version: str) -> None:
        """Watch from ``version`` on until the Lease is free, this process leads, or the server ends the watch."""
        watch = self.kube.watch(LEASES, version, namespace=self.namespace, name=self.name)
        async with aclosing(watch) as events:
            async for event in events:
                if not self._stands_by.is_set():
                    return
                is_free = event.type == "DELETED" or not read_record(event.object).holder
                if is_free and event.type != "BOOKMARK":
                    self._freed.set()
                    return

    async def _compete(self) -> None:
        while True:
            try:
                failed = True
                async with asyncio.timeout(self.times.longest_attempt):
                    await self._attempt()
                failed = False
                self.last_progress = self.clock.monotonic()
            except (DovetailError, TimeoutError) as error:
                log.warning("cannot renew or take the lease", lease=self.name, error=str(error))
            if self.acquired.is_set() and not self.held:
                log.error("lost the lease", lease=self.name, epoch=self.epoch)
                self._step_down()
            share = self.random.uniform(*SPREAD)
            seconds = self.times.pause(failed=failed and self.held, share=share)
            await pause_unless(self._freed, seconds)

    async def _attempt(self) -> None:
        """Renew what this process wrote; else read the Lease, and write it when it is held by this process, free or
        expired."""
        if self.held and self._written is not None and await self._renew(self._written):
            return
        started = self.clock.monotonic()
        try:
            lease = await self.kube.get(LEASES, self.name, self.namespace)
        except NotFound:
            await self._create(started)
            return
        record = read_record(lease)
        self._observe(record)
        if self.barred_by in (lease["metadata"].get("annotations") or {}):
            await self._give_up()
            return
        if not self._may_take(record):
            if self.held:
                log.error("another process took the lease", lease=self.name, holder=record.holder)
            self._step_down()
            self._stands_by.set()
            return
        # Continue from the highest epoch seen, not from the one read: the Lease may have been deleted and recreated.
        epoch = self._highest_epoch + (record.holder != self.identity)
        lease["spec"] = (lease.get("spec") or {}) | self._spec(epoch, record)
        try:
            written = await self.kube.replace(LEASES, lease)
        except Conflict:
            return  # another candidate was faster; the next round reads the new holder
        self._won(written, started)

    async def _renew(self, before: dict[str, Any]) -> bool:
        """Write without reading. False when the Lease must be read: it was changed or deleted, or the write failed."""
        started = self.clock.monotonic()
        spec = before["spec"] | self._spec(self.epoch, read_record(before))
        try:
            written = await self.kube.replace(LEASES, before | {"spec": spec})
        except DovetailError:
            # Whatever it was, the next read tells: a deleted Lease is a conflict for some servers, 404 for others.
            self._written = None
            return False
        self._won(written, started)
        return True

    async def _create(self, started: float) -> None:
        body = {
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": self._spec(self._highest_epoch + 1, None),
        }
        try:
            written = await self.kube.create(LEASES, body, self.namespace)
        except AlreadyExists:
            return
        self._won(written, started)

    def _observe(self, record: Record) -> None:
        self._highest_epoch = max(self._highest_epoch, record.epoch)
        if record != self._seen:
            self._seen, self._seen_at = record, self.clock.monotonic()

    def _may_take(self, record: Record) -> bool:
        if record.holder in ("", self.identity):
            return True
        return self.clock.monotonic() - self._seen_at >= self.times.duration

    def _won(self, written: dict[str, Any], started: float) -> None:
        record = read_record(written)
        self._observe(record)
        if not self.shared:  # The others that share the identity write it too.
            self._written = written
        if not self.acquired.is_set():
            log.info("leading", lease=self.name, epoch=record.epoch, identity=self.identity)
        self.epoch = record.epoch
        # Count from the start of the attempt: other candidates count from their later read of it.
        self._held_until = started + self.times.renew_deadline
        self._stands_by.clear()
        self.acquired.set()

    async def _give_up(self) -> None:
        """Stop leading before the Lease is free. A shared one is not freed here: other processes still lead by it."""
        if self.acquired.is_set():
            log.info("giving up the lease", lease=self.name, annotation=self.barred_by)
        self._step_down()
        if not self.shared:
            await self._release()

    def _step_down(self) -> None:
        self._held_until = float("-inf")
        self._written = None
        self.acquired.clear()

    async def _release(self) -> None:
        """Free the Lease if this process holds it, so that the next holder need not wait 15 s. Best effort."""
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_SECONDS):
                lease = await self.kube.get(LEASES, self.name, self.namespace)
                if read_record(lease).holder == self.identity:
                    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self.kube.replace(LEASES, lease)
        except (DovetailError, TimeoutError) as error:
            log.warning("cannot release the lease", lease=self.name, error=str(error))

    def _spec(self, epoch: int, before: Record | None) -> dict[str, Any]:
        now = datetime.fromtimestamp(self.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self.times.duration)),
            "renewTime": now,
            "leaseTransitions": epoch,
        }
        if before is None or before.holder != self.identity:
            spec["acquireTime"] = now
        return spec
