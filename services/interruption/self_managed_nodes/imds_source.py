"""The instance's own metadata as a source of notices: for clusters without a queue, one agent on each node.

An announcement stays in the metadata, so notices that were handled are remembered, and others are put again after the
next reading. What may go wrong: the metadata service does not answer, or in a form that cannot be read: ``problem``
says so on /readyz, and it is read again. One document that cannot be read hides no other: a spot notice has 120 s.

The metadata service has version 2 only: a token first, then small texts. A token that runs out or is forgotten (401) is
fetched anew once. From inside a pod the answer to a token may need one hop more than the instance allows: the agent
runs in the network of its host.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from random import Random

import aiohttp

from services.interruption.notices.backlog import Backlog, Entry
from services.interruption.notices.notice import Notice, NoticeKind, rank
from services.interruption.self_managed_nodes.hook_timing import step_for_hook
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
from shared.api.core.nodes import parse_node
from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import Clock
from shared.concurrency.waiting import pause
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pools.generations import GENERATIONS
from shared.domain.pools.nodepools import IGNORE, NodePool
from shared.errors import DovetailError, NotFound, Throttled, Unauthorized, Unavailable, Unreachable
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.pools import read_pool
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.bus import BadMessage
from shared.settings import InterruptionSettings

log = get_logger(__name__)

TOKEN_SECONDS = 21_600
EARLY_SECONDS = 300.0
"""A token is replaced this long before it runs out."""
TIMEOUT_SECONDS = 2.0
LONGEST_TEXT = 64 * 1024
LONGEST_BACKOFF_SECONDS = 10.0
"""Short: only this agent reads this service, and a spot notice may be waiting in it."""
REPEAT_SECONDS = 20.0
"""A notice that is not handled after this long is put again."""
WAITING_SECONDS = 60.0


@dataclass
class Imds:
    """A client of one endpoint, without ``/latest``; call ``close`` at the end."""

    endpoint: str
    clock: Clock
    _session: aiohttp.ClientSession | None = None
    _token: str = ""
    _until: float = 0.0

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str) -> str | None:
        """The text at ``meta-data/...``; None when there is none (404). Raises TransientError and Unauthorized."""
        status, text = await self._ask("GET", path, await self._headers())
        if status == HTTPStatus.UNAUTHORIZED:
            self._token = ""
            status, text = await self._ask("GET", path, await self._headers())
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status != HTTPStatus.OK:
            raise _fault(path, status)
        return text

    async def _headers(self) -> dict[str, str]:
        now = self.clock.monotonic()
        if not self._token or now >= self._until:
            desired = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
            status, text = await self._ask("PUT", "api/token", desired)
            if status != HTTPStatus.OK:
                raise _fault("api/token", status)
            self._token, self._until = text, now + TOKEN_SECONDS - EARLY_SECONDS
        return {"X-aws-ec2-metadata-token": self._token}

    async def _ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        if self._session is None:
            # No proxy: the address is the instance's own.
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
            )
        url = f"{self.endpoint.rstrip('/')}/latest/{path}"
        try:
            async with self._session.request(
                method, url, headers=headers, allow_redirects=False
            ) as answer:
                text = await answer.content.read(LONGEST_TEXT)
                return answer.status, text.decode("utf-8", "replace")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(
                f"no metadata service at {self.endpoint}: {error!r}; run in the host's network, or check IMDS_ENDPOINT"
            ) from error


def _fault(path: str, status: int) -> DovetailError:
    text = f"the metadata service answers {path} with {status}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Unauthorized(f"{text}: is it switched off for this instance (HttpEndpoint)?")
    return Throttled(text) if status == HTTPStatus.TOO_MANY_REQUESTS else Unavailable(text)


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


@dataclass
class OwnNode:
    """An ``InstanceLookup`` for one instance. ``name``: of its Kubernetes node."""

    kube: Kube
    machines: Machines
    name: str = ""
    instance: str = ""
    _node: Node | None = None
    _waiting: Machine | None = None

    def count(self, instances: Iterable[str]) -> int:
        """How many of these are this one."""
        return sum(instance == self.instance for instance in instances)

    async def machine(self, instance: str) -> Machine | None:
        """Read node and Machine afresh. None: another instance, or one without a Machine. Raises TransientError; what
        was read before stays then, because another task may be using it.
        """
        if instance != self.instance:
            return None
        node, machine = await self._read()
        self._node = node
        waits = machine is not None and keys.MAINTENANCE_ANNOTATION in machine.annotations
        self._waiting = machine if waits else None
        return machine

    async def _read(self) -> tuple[Node | None, Machine | None]:
        try:
            raw = await self.kube.get(NODES, self.name)
            node = parse_node(raw)
            if provider_instance_id(node.provider_id) != self.instance:
                return None, None
            if any(taint.key == keys.UNREGISTERED_TAINT_KEY for taint in node.taints):
                raise Unavailable(f"node {self.name} is not registered yet")
            key = _owner_key(raw["metadata"].get("ownerReferences") or ())
            return node, await self.machines.get(key) if key else None
        except NotFound:
            return None, None

    def node(self, instance: str) -> Node | None:
        """As of the last ``machine``."""
        return self._node if instance == self.instance else None

    async def any_node(self, instance: str) -> Node | None:
        """Read afresh, owned by a pool or not. None: another instance. Raises TransientError."""
        await self.machine(instance)
        return self.node(instance)

    async def pool(self, machine: Machine) -> NodePool | None:
        """The pool of this Machine; None for one without. Raises TransientError when that cannot be known now."""
        return await read_pool(self.kube, machine.pool_key) if machine.pool_key else None

    def scheduled(self) -> list[tuple[str, Machine]]:
        """The machine, if it waited for a scheduled event at the last ``machine``."""
        return [(self.instance, self._waiting)] if self._waiting else []


def _owner_key(owners: Iterable[dict[str, object]]) -> str:
    kinds = {one.machine_kind for one in GENERATIONS.values()}
    found = (f"{one.get('kind')}/{one.get('name')}" for one in owners if one.get("kind") in kinds)
    return next(found, "")
