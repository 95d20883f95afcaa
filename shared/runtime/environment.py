"""The connections and settings of a service, opened at its start and closed in reverse order.

If a dependency cannot be reached at the start, the service logs the dependency, the cause and the setting to check,
retries for ``CONNECT_TIMEOUT`` and then exits with code 1, so that its supervisor restarts it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import uvloop

from shared import errors
from shared import log as logs
from shared.concurrency.clock import Clock, SystemClock
from shared.distribution.version import COMMIT_VARIABLE, VERSION
from shared.kube.client import Kube
from shared.kube.lease import Lease
from shared.kube.recorder import Recorder
from shared.kube.resources import OUR_KINDS, Resource
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.bus import Bus, Consumer, ConsumerSettings, Envelope, Handler, RetryLater, shown
from shared.redis.mirror.seen_events import SharedSeenEvents
from shared.runtime import services as runtime
from shared.runtime import status
from shared.runtime.karpenter_lease import karpenter_lease, take_turns
from shared.runtime.leadership import Leadership, epoch_now
from shared.runtime.live_settings import REFRESH_SECONDS, LiveSettings
from shared.runtime.ram import settle
from shared.runtime.status import PROBE_LIMITS, Listener
from shared.runtime.tracing import OFF, Tracer
from shared.runtime.tracing.opening import open_tracer
from shared.settings import ServiceSettings, describe, read_early
from shared.settings.own import AccessKey, own_access_key, own_values
from shared.settings.reading import without_meaning

log = get_logger(__name__)

CONNECT_PAUSE_SECONDS = 2.0
QUEUE_DEPTH_SECONDS = 10.0
"""How often the number of waiting messages of each consumer is measured."""
Config = TypeVar("Config", bound=ServiceSettings)


@dataclass
class Environment(Generic[Config]):
    """What ``build`` of a service gets. ``instance`` is unique for each start of the process.

    ``settings`` changes while the service runs (OPS-04): read a value where it is used, and keep no copy.
    """

    settings: Config
    live: LiveSettings[Config]
    clock: Clock
    random: random.Random
    metrics: Metrics
    kube: Kube
    bus: Bus
    recorder: Recorder
    instance: str
    stack: contextlib.AsyncExitStack
    access_key: AccessKey | None = None
    """The service's own AWS access key; None for the default credential chain."""
    tracer: Tracer = OFF
    consuming: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name of a consuming loop -> (stream, group)."""

    def consumer_loop(
        self, stream: str, group: str, handler: Handler, *, timeout: float = 60.0, limit: int = 32
    ) -> runtime.Loop:
        """A loop that consumes ``stream`` as ``group``. A restarted loop is a new consumer (F5)."""
        consumer: Consumer | None = None

        def progress() -> float:
            return loop.beat if consumer is None else max(loop.beat, consumer.last_progress)

        # Set once: a standby replaces it, because a consumer that ended with its term makes no progress any more.
        loop = runtime.Loop(f"consume {stream}", runtime.until_stopped, progress=progress)
        settings = ConsumerSettings.idle_for(self.settings.message_min_idle)
        self.metrics.expect_messages(loop.name, limit)

        async def measured(envelope: Envelope) -> None:
            waited = self.clock.now() - envelope.at
            measuring = self.metrics.message(loop.name, waited, RetryLater)
            with measuring, self.tracer.message(envelope, loop.name):
                await handler(envelope)

        async def run(stop: asyncio.Event) -> None:
            nonlocal consumer
            consumer = self.bus.consumer(
                stream=stream,
                group=group,
                name=f"{self.instance}-{self.random.getrandbits(32):08x}",
                handler=measured,
                limit=limit,
                handler_timeout_seconds=timeout,
                settings=settings,
            )
            self.consuming[loop.name] = stream, group
            try:
                await consumer.run(stop)
            finally:
                del self.consuming[loop.name]
                self.metrics.set_depth(loop.name, None)
                consumer = None

        loop.run = run
        return loop

    def leadership(self, name: str) -> Leadership:
        """The leader election of this service; called once by its ``build`` (OPS-11)."""
        if self.settings.disable_leader_election:
            return Leadership(None, self.clock)
        lease_name, namespace = self._lease_of(name)
        lease = Lease(
            self.kube,
            name=lease_name,
            namespace=namespace,
            identity=self.instance,
            clock=self.clock,
            random=self.random,
        )
        self.metrics.report_leadership(lease_name, lambda: lease.held)
        return Leadership(lease, self.clock)

    async def epoch_of(self, name: str) -> int:
        """The fencing epoch of this service's leader, by a quorum read; 0 without leader election (F14)."""
        if self.settings.disable_leader_election:
            return 0
        return await epoch_now(self.kube, *self._lease_of(name))

    def _lease_of(self, name: str) -> tuple[str, str]:
        """Name and namespace."""
        settings = self.settings
        namespace = settings.leader_election_namespace or settings.system_namespace
        return f"{settings.leader_election_name}-{name}", namespace

    def own_loops(self) -> list[runtime.Loop]:
        """The loops of every service: write events, refresh the settings, measure the queues."""
        events = runtime.Loop("events", self.recorder.run)
        events.late_seconds = float("inf")
        refresh = runtime.periodic(
            "settings", REFRESH_SECONDS, self.live.refresh, clock=self.clock, jitter=self.random
        )
        queues = runtime.periodic(
            "queues",
            QUEUE_DEPTH_SECONDS,
            self._measure_queues,
            clock=self.clock,
            jitter=self.random,
        )
        return [events, refresh, queues]

    async def _measure_queues(self) -> None:
        """A stream that cannot be measured keeps its last depth; its consumer reports that Redis is unreachable."""
        for name, (stream, group) in list(self.consuming.items()):
            try:
                found = await self.bus.waiting(stream, group)
                dead = await self.bus.dead_letters(stream).count()
            except errors.DovetailError as error:
                log.debug("a stream cannot be measured", stream=stream, error=error.message)
                continue
            self.metrics.dead_letters.labels(stream).set(dead)
            if name in self.consuming:
                self.metrics.set_depth(name, found)


READERS = frozenset({"console"})
"""Services that change nothing, and so need not wait for Karpenter to stop."""


def guard(service: runtime.Service, env: Environment[Any]) -> None:
    """Let ``service`` act only while Dovetail holds the Lease ``KARPENTER_LEASE``."""
    namespace, _, name = env.settings.karpenter_lease.partition("/")
    lease = karpenter_lease(env.kube, namespace, name, clock=env.clock, random=env.random)
    take_turns(service, lease, env.clock)


Build = Callable[[Environment[Config]], Awaitable[runtime.Service]]


@dataclass(frozen=True)
class Entry(Generic[Config]):
    """The parts of one service: its name, its settings, its composition root."""

    name: str
    settings: type[Config]
    build: Build[Config]


async def open_environment(
    name: str, kind: type[Config], stack: contextlib.AsyncExitStack
) -> Environment[Config]:
    """Read the settings, connect to the API server and Redis.

    Raises ConfigurationError immediately for wrong settings, and after ``CONNECT_TIMEOUT`` for an unreachable server.
    """
    clock, chance = SystemClock(), random.SystemRandom()
    own, access_key = own_values(name, os.environ), own_access_key(name, os.environ)
    early = read_early(kind, **own)
    for setting, instead in without_meaning(os.environ).items():
        log.warning("a setting of Karpenter has no meaning here", setting=setting, instead=instead)
    kube = await Kube.connect(
        early.kubeconfig or None,
        clock=clock,
        random=chance,
        user_agent=f"dovetail-{name}/{VERSION}",
        qps=early.kube_client_qps,
        burst=early.kube_client_burst,
    )
    stack.push_async_callback(kube.close)
    recorder = Recorder(kube, clock, chance)
    live = LiveSettings(kind, kube, recorder, namespace=early.system_namespace, own=own)

    async def ask_server() -> None:
        await check_kinds(kube)
        await live.start()

    patience = early.connect_timeout
    await reach("the Kubernetes API server", "KUBECONFIG", ask_server, clock, patience)
    settings = live.settings
    bus = Bus(settings.redis_url, settings.cluster_name, clock=clock, random=chance)
    place = f"Redis at {shown(settings.redis_url)}"
    await reach(place, "REDIS_URL", bus.start, clock, patience)
    stack.push_async_callback(bus.close)
    recorder.seen = SharedSeenEvents(bus.redis, bus.prefix)
    instance = f"{socket.gethostname()}-{os.getpid()}-{chance.getrandbits(32):08x}"
    metrics = Metrics(name, commit=os.environ.get(COMMIT_VARIABLE, "")[: logs.SHOWN_COMMIT])
    kube.observe(metrics.count_server_request)
    tracer = open_tracer(name, settings, metrics, instance=instance, clock=clock, chance=chance)
    stack.push_async_callback(tracer.close)
    return Environment(
        settings,
        live,
        clock,
        chance,
        metrics,
        kube,
        bus,
        recorder,
        instance,
        stack,
        access_key,
        tracer,
    )


async def check_kinds(kube: Kube) -> None:
    """Raises Unavailable that names every kind the API server does not serve (OPS-10)."""
    missing = [_plural(kind) for kind in OUR_KINDS if not await kube.serves(kind)]
    if missing:
        raise errors.Unavailable(
            f"it does not know {', '.join(missing)}: kubectl apply -f deploy/crds"
        )


def _plural(resource: Resource) -> str:
    return resource.kind + ("es" if resource.kind.endswith("s") else "s")


async def reach(
    what: str,
    variable: str,
    connect: Callable[[], Awaitable[object]],
    clock: Clock,
    timeout_seconds: float,
) -> None:
    """Call ``connect`` until it succeeds or is refused. Raises ConfigurationError with cause and variable."""
    deadline = clock.monotonic() + timeout_seconds
    while True:
        try:
            await connect()
        except errors.TransientError as error:
            text = f"cannot reach {what}: {error.message}. Is it running? Check {variable}"
            if clock.monotonic() > deadline:
                raise errors.ConfigurationError(text) from error
            log.warning("waiting for a connection", problem=text)
        except errors.Unauthorized as error:
            text = f"{what} lets nobody in by this name: {error.message}. Check {variable}"
            raise errors.ConfigurationError(text) from error
        else:
            return
        await asyncio.sleep(min(CONNECT_PAUSE_SECONDS, timeout_seconds))


@contextlib.asynccontextmanager
async def running_services(
    entries: Sequence[Entry[Any]],
) -> AsyncIterator[list[runtime.Service]]:
    """The services of ``entries``, built and connected during the block. Raises as ``open_environment``."""
    async with contextlib.AsyncExitStack() as stack:
        built = []
        for entry in entries:
            environment = await open_environment(entry.name, entry.settings, stack)
            service = await entry.build(environment)
            if environment.settings.karpenter_lease and entry.name not in READERS:
                guard(service, environment)
            service.loops = [*service.loops, *environment.own_loops()]
            built.append(service)
        yield built


async def _run(entries: Sequence[Entry[Any]]) -> None:
    clock = SystemClock()
    first = read_early(entries[0].settings)
    logs.configure(first.log_level)
    async with running_services(entries) as services:
        settle()
        server = status.server_loop(*listeners_of(services, first, clock))
        await runtime.run(services, server, clock=clock)


def listeners_of(
    services: Sequence[runtime.Service], settings: ServiceSettings, clock: Clock
) -> list[Listener]:
    """The listener of the status pages, and that of the probes if they have a separate port."""
    pages = status.mount(services, clock, docs=settings.api_docs, profiling=settings.profiling)
    found = [Listener(pages, settings.status_host, settings.status_port)]
    if settings.probe_port:
        host = settings.probe_host or settings.status_host
        named = "PROBE_HOST and PROBE_PORT"
        probes = status.probes(services, clock)
        found.append(Listener(probes, host, settings.probe_port, PROBE_LIMITS, named))
    return found


def main(*entries: Entry[Any], options: argparse.ArgumentParser | None = None) -> None:
    """The main function of ``python -m services.<name>``. Exits with code 1 and a message on a DovetailError.

    ``options``: arguments that the caller has parsed already, for the help text.
    """
    names = ", ".join(entry.name for entry in entries)
    parser = argparse.ArgumentParser(
        prog=f"python -m services{'.' + entries[0].name if len(entries) == 1 else ''}",
        description=f"Dovetail: {names}. All settings are environment variables, see docs/operating/settings.md:",
        epilog="\n".join(describe(entry.settings) for entry in entries),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[options] if options else [],
    )
    parser.parse_args()
    try:
        uvloop.run(_run(entries))
    except* errors.DovetailError as group:
        for error in _leaves(group):
            sys.stderr.write(f"dovetail {names}: {error}\n")
        raise SystemExit(1) from None


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
