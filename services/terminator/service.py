"""Wires the terminator: the queue of terminations, what it reads and writes, and node repair."""

from __future__ import annotations

from functools import partial

from services.terminator.batched_lists import BatchedLists
from services.terminator.drain.controller import DrainController
from services.terminator.drain.eviction import Evictions
from services.terminator.drain.lifecycle_hooks import LifecycleDrains
from services.terminator.instances import Instances
from services.terminator.orphaned_instances import OrphanedInstances
from services.terminator.ports import Ports
from services.terminator.queue import TerminationQueue
from services.terminator.repair.controller import PERIOD_SECONDS, NodeRepair
from services.terminator.termination import EarlyFailures, Termination
from services.terminator.termination_trace import TerminationTraces
from services.terminator.waiting.changes import MirrorChanges
from services.terminator.writer import Writer
from shared.kube.machines import Machines
from shared.redis import streams
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff
from shared.redis.mirror.pools.pool_health import PoolHealth
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from shared.runtime.aws import open_cloud
from shared.runtime.environment import Entry, Environment
from shared.runtime.services import Loop, Service, periodic
from shared.settings import TerminatorSettings


async def build(env: Environment[TerminatorSettings]) -> Service:
    cloud = await open_cloud(env)
    queue = build_queue(
        Ports(
            env.kube, cloud, env.bus, env.clock, env.metrics, env.recorder, env.settings, env.tracer
        )
    )  # fmt: skip
    repair = NodeRepair(queue.ports, Machines(env.kube), add=queue.add)
    timed = partial(periodic, clock=env.clock, jitter=env.random)
    loops = [
        Loop("terminations", queue.run, progress=lambda: queue.last_progress),
        env.consumer_loop(streams.TERMINATIONS, "terminator", queue.handle),
        timed("resync", env.settings.resync_seconds, queue.resync),
        timed("repair", PERIOD_SECONDS, repair.check),
    ]
    return Service("terminator", loops, env.metrics, lambda: {"open": queue.open})


def build_queue(ports: Ports) -> TerminationQueue:
    """An empty queue and all that its steps use; the tests build their terminator by this, too."""
    clock, redis = ports.clock, (ports.bus.redis, ports.bus.prefix)
    machines = Machines(ports.kube)
    lists = BatchedLists(ports.kube, machines)
    writer = Writer(ports, machines)
    evictions = Evictions(ports, writer)
    drains = DrainController(ports, writer, evictions, lists)
    instances = Instances(ports.cloud.ec2, clock)
    shifted = ShiftedZones(*redis, clock)
    failures = EarlyFailures(
        ports.recorder, PoolHealth(RegistrationOutcomes(*redis), LaunchBackoff(*redis))
    )
    cluster = ports.settings.cluster_name
    orphans = OrphanedInstances(machines, lists, instances, shifted, clock, cluster)
    traces = TerminationTraces(ports.tracer, clock)
    termination = Termination(
        ports, machines, lists, instances, shifted, drains, writer, failures, traces
    )
    lifecycle_drains = LifecycleDrains(ports, evictions)
    changes = MirrorChanges(ports.bus, clock)
    return TerminationQueue(ports, termination, lifecycle_drains, orphans, changes)


ENTRY = Entry("terminator", TerminatorSettings, build)
