"""Puts the saga together from its parts."""

from __future__ import annotations

from services.terminator.batched_lists import Listings
from services.terminator.drain.controller import Clearing
from services.terminator.drain.eviction import Evictions
from services.terminator.drain.lifecycle_hooks import HookedNodes
from services.terminator.early_failures import Endings
from services.terminator.instances import Instances
from services.terminator.orphaned_instances import Strays
from services.terminator.queue import Work
from services.terminator.termination import Termination
from services.terminator.writer import Writer
from shared.bus import Bus
from shared.clock import Clock
from shared.cloud.session import Cloud
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.mirror.launch_backoff import LaunchBackoff
from shared.mirror.pool_health import PoolHealth
from shared.mirror.registrations import RegistrationOutcomes
from shared.mirror.shifted_zones import ShiftedZones
from shared.settings import TerminatorSettings


def assemble(
    *,
    kube: Kube,
    cloud: Cloud,
    bus: Bus,
    clock: Clock,
    settings: TerminatorSettings,
    metrics: Metrics,
    recorder: Recorder,
) -> Work:
    """A terminator that remembers nothing."""
    machines = Machines(kube)
    listings = Listings(kube, machines)
    writer = Writer(kube, machines, bus, clock, recorder, metrics)
    evictions = Evictions(kube, clock, writer, metrics)
    clearing = Clearing(kube, clock, settings, metrics, writer, evictions, listings)
    instances = Instances(cloud.ec2, clock)
    shifted = ShiftedZones(bus.redis, bus.prefix, clock)
    health = PoolHealth(
        RegistrationOutcomes(bus.redis, bus.prefix), LaunchBackoff(bus.redis, bus.prefix, clock)
    )
    endings = Endings(recorder, health)
    strays = Strays(machines, listings, instances, shifted, clock, settings.cluster_name)
    termination = Termination(
        kube, machines, clock, metrics, listings, instances, shifted, clearing, writer, endings
    )
    hooked = HookedNodes(kube, clock, evictions, recorder)
    return Work(termination, kube, metrics, settings.poll_seconds, hooked, strays)
