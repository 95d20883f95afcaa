"""Wires the terminator: the queue of terminations, what it reads and writes, and node repair."""

from __future__ import annotations

from functools import partial

from services.terminator.batched_lists import BatchedLists
from services.terminator.drain.controller import DrainController
from services.terminator.drain.eviction import Evictions
from services.terminator.drain.lifecycle_hooks import LifecycleDrains
from services.terminator.instances import Instances
from services.terminator.orphaned_instances import OrphanedInstances
from services.terminator.queue import TerminationQueue
from services.terminator.repair.controller import PERIOD_SECONDS, NodeRepair
from services.terminator.termination import EarlyFailures, Termination
from services.terminator.writer import Writer
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import Clock
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff
from shared.redis.mirror.pools.pool_health import PoolHealth
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from shared.runtime.aws import open_cloud
from shared.runtime.environment import Entry, Environment
from shared.runtime.services import Loop, Service, periodic
from shared.settings import TerminatorSettings


async def build(env: Environment[TerminatorSettings]) -> Service:
    """Wire the terminator."""
    queue = build_queue(
        kube=env.kube,
        cloud=await open_cloud(env),
        bus=env.bus,
        clock=env.clock,
        settings=env.settings,
        metrics=env.metrics,
        recorder=env.recorder,
    )
    repair = NodeRepair(
        env.kube,
        Machines(env.kube),
        env.clock,
        env.recorder,
        env.metrics,
        enabled=lambda: env.settings.feature_gates.node_repair,
        add=queue.add,
    )
    timed = partial(periodic, clock=env.clock, jitter=env.random)
    loops = [
        Loop("terminations", queue.run, progress=lambda: queue.last_progress),
        env.consumer_loop(streams.TERMINATIONS, "terminator", queue.handle),
        timed("resync", env.settings.resync_seconds, queue.resync),
        timed("repair", PERIOD_SECONDS, repair.check),
    ]
    return Service("terminator", loops, env.metrics, lambda: {"open": queue.open})


def build_queue(
    *,
    kube: Kube,
    cloud: Cloud,
    bus: Bus,
    clock: Clock,
    settings: TerminatorSettings,
    metrics: Metrics,
    recorder: Recorder,
) -> TerminationQueue:
    """An empty queue and all that its steps use; the tests build their terminator by this, too."""
    machines = Machines(kube)
    lists = BatchedLists(kube, machines)
    writer = Writer(kube, machines, bus, clock, recorder, metrics)
    evictions = Evictions(kube, clock, writer, metrics)
    drains = DrainController(kube, clock, settings, metrics, writer, evictions, lists)
    instances = Instances(cloud.ec2, clock)
    shifted = ShiftedZones(bus.redis, bus.prefix, clock)
    health = PoolHealth(
        RegistrationOutcomes(bus.redis, bus.prefix), LaunchBackoff(bus.redis, bus.prefix, clock)
    )
    failures = EarlyFailures(recorder, health)
    orphans = OrphanedInstances(machines, lists, instances, shifted, clock, settings.cluster_name)
    termination = Termination(
        kube, machines, clock, metrics, lists, instances, shifted, drains, writer, failures
    )
    lifecycle_drains = LifecycleDrains(kube, clock, evictions, recorder, settings)
    return TerminationQueue(
        termination, kube, metrics, settings.poll_seconds, lifecycle_drains, orphans
    )


ENTRY = Entry("terminator", TerminatorSettings, build)
