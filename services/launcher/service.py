"""The launcher put together: ``Launcher`` holds its parts, ``build`` connects them to a process.

Every effect has its intent on the API server first (see ``launch.saga``). Without messages the launcher still does all
its work, a resync period later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property, partial

from services.launcher.catalogue import overlays, reservations, zonal_shift
from services.launcher.catalogue.learned_memory import MemorySizes
from services.launcher.catalogue.publish import Catalogues
from services.launcher.catalogue.read import READ_SECONDS, CatalogueRequest
from services.launcher.drift.controller import CHECK_SECONDS, DriftController
from services.launcher.garbage_collection import instance_profiles
from services.launcher.garbage_collection.controller import GarbageCollection
from services.launcher.handlers import Handlers
from services.launcher.launch.admission import Admission, CurrentEpoch, no_election
from services.launcher.launch.controller import MOST_MACHINES, LaunchController
from services.launcher.launch.pacing import CallBudget, CallQueue, Pace, Sleep
from services.launcher.launch.record_store import LaunchRecords
from services.launcher.launch.request import LaunchRequests
from services.launcher.launch.results import LaunchResults
from services.launcher.launch.saga import LaunchSaga
from services.launcher.launch.subnets import SubnetReservations
from services.launcher.launch.turns import LaunchTurns
from services.launcher.launch.unavailable_offerings import CapacityErrors
from services.launcher.launch_template.cluster_dns import ClusterDns
from services.launcher.launch_template.controller import LaunchTemplates
from services.launcher.launch_template.store import SWEEP_SECONDS, TemplateStore
from services.launcher.lifecycle import consistency, tagging
from services.launcher.lifecycle.controller import LifecycleController
from services.launcher.lifecycle.initialization import Initialization
from services.launcher.lifecycle.liveness import Liveness
from services.launcher.lifecycle.registration import Registration
from services.launcher.machine_writer import MachineWriter
from services.launcher.node_class.controller import NodeClasses
from services.launcher.status import Status
from shared.cloud.catalogue.instance_model import ModelSettings
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import Clock
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.learned_ram import LearnedMemory
from shared.redis.mirror.catalogue.offerings import (
    CatalogueSource,
    CatalogueStore,
    UnavailableOfferings,
)
from shared.redis.mirror.catalogue.overlays import OverlaidCatalogues
from shared.redis.mirror.catalogue.reservations import ReservationStore
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff
from shared.redis.mirror.pools.pool_health import PoolHealth
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from shared.redis.mirror.template_use import TemplateUse
from shared.runtime.aws import open_cloud, role_of
from shared.runtime.environment import Entry, Environment
from shared.runtime.services import Loop, Service, periodic
from shared.settings import LauncherSettings
from shared.settings.own import AccessKey

NODE_CLASS_SECONDS = 60.0
LAUNCH_TIMEOUT_SECONDS = 120.0
GARBAGE_LATE_SECONDS = 360.0


@dataclass
class Launcher:
    """The parts of one launcher. Each is made at its first use and then kept: whoever needs one part makes no other.

    ``current_epoch``: the scheduler's fencing epoch by a quorum read, as ``shared.kube.lease.current_epoch`` gives it
    (F14). ``sleep``: how a CreateFleet call waits in its queue.
    """

    kube: Kube
    cloud: Cloud
    bus: Bus
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    settings: LauncherSettings
    current_epoch: CurrentEpoch = no_election
    sleep: Sleep = asyncio.sleep
    access_key: AccessKey | None = None
    """The key of the child that reads the catalogue; None: AWS's usual sources."""

    @cached_property
    def machines(self) -> Machines:
        """Machines on the API server."""
        return Machines(self.kube)

    @cached_property
    def writer(self) -> MachineWriter:
        """What every part writes about machines."""
        return MachineWriter(self.machines, self.bus, self.clock, self.recorder)

    @cached_property
    def unavailable(self) -> UnavailableOfferings:
        """Offerings that no service asks for now."""
        return UnavailableOfferings(self.bus.redis, self.bus.prefix, self.clock)

    @cached_property
    def shifted(self) -> ShiftedZones:
        """Zones that the cluster is shifted away from."""
        return ShiftedZones(self.bus.redis, self.bus.prefix, self.clock)

    @cached_property
    def backoff(self) -> LaunchBackoff:
        """Pools whose machines do not register."""
        return LaunchBackoff(self.bus.redis, self.bus.prefix, self.clock)

    @cached_property
    def health(self) -> PoolHealth:
        """How registrations of each pool ended."""
        outcomes = RegistrationOutcomes(self.bus.redis, self.bus.prefix)
        return PoolHealth(outcomes, self.backoff)

    @cached_property
    def store(self) -> CatalogueStore:
        """The catalogue in Redis: EC2's own facts."""
        return CatalogueStore(self.bus.redis, self.bus.prefix)

    @cached_property
    def corrected(self) -> CatalogueSource:
        """The catalogue as administrators correct it (NO-01)."""
        if not self.settings.feature_gates.node_overlay:
            return self.store
        return OverlaidCatalogues(self.store, overlays.ListedOverlays(self.kube, self.clock))

    @cached_property
    def memory_sizes(self) -> MemorySizes:
        """What nodes reported of their memory."""
        return MemorySizes(LearnedMemory(self.bus.redis, self.bus.prefix), self.clock)

    @cached_property
    def catalogues(self) -> Catalogues:
        """Reads AWS and publishes the catalogue."""
        settings = self.settings
        model = ModelSettings(
            vm_memory_overhead_percent=settings.vm_memory_overhead_percent,
            reserved_enis=settings.reserved_enis,
            pod_eni=settings.enable_pod_eni,
            eni_limited_pod_density=settings.enable_eni_limited_pod_density,
            isolated_vpc=settings.isolated_vpc,
        )
        region, endpoint = settings.aws_region, settings.aws_endpoint_url
        request = CatalogueRequest(
            region, endpoint, model, settings.log_level, role_of(settings), self.access_key
        )
        return Catalogues(self.store, request, self.clock, self.memory_sizes)

    @cached_property
    def node_classes(self) -> NodeClasses:
        """Node classes of both generations."""
        store = ReservationStore(self.bus.redis, self.bus.prefix)
        return NodeClasses(self.kube, self.cloud, self.clock, self.recorder, self.settings, store)

    @cached_property
    def template_store(self) -> TemplateStore:
        """Launch templates that exist in EC2."""
        use = TemplateUse(self.bus.redis, self.bus.prefix, self.clock)
        return TemplateStore(self.kube, self.cloud, self.clock, self.settings, use)

    @cached_property
    def templates(self) -> LaunchTemplates:
        """Launch templates that a launch needs."""
        dns = ClusterDns(self.kube, self.clock)
        return LaunchTemplates(self.node_classes.cluster, dns, self.settings, self.template_store)

    @cached_property
    def launch(self) -> LaunchController:
        """Machine -> instance."""
        admission = Admission(self.kube, self.clock, self.backoff, self.current_epoch)
        records = LaunchRecords(self.kube, self.clock)
        subnets = SubnetReservations(self.corrected, self.clock, self.node_classes.cluster.is_ipv6)
        capacity_errors = CapacityErrors(
            self.unavailable, self.corrected, subnets, self.settings, self.metrics
        )
        results = LaunchResults(
            self.machines, self.writer, self.clock, self.metrics, self.corrected, self.node_classes
        )
        requests = LaunchRequests(
            admission=admission,
            node_classes=self.node_classes,
            templates=self.templates,
            catalogues=self.corrected,
            capacity_errors=capacity_errors,
            subnets=subnets,
            clock=self.clock,
            settings=self.settings,
        )
        # The rate is a setting that changes while the service runs: read at each call, not once here.
        pace = Pace(lambda: self.settings.create_fleet_per_second)
        saga = LaunchSaga(
            cloud=self.cloud,
            cluster=self.settings.cluster_name,
            clock=self.clock,
            admission=admission,
            records=records,
            turns=LaunchTurns(records, self.machines),
            queue=CallQueue(pace, self.clock, self.sleep),
            budget=CallBudget(self.clock),
            subnets=subnets,
            capacity_errors=capacity_errors,
            templates=self.templates,
            results=results,
        )
        return LaunchController(self.machines, records, requests, saga, results, self.settings)

    @cached_property
    def lifecycle(self) -> LifecycleController:
        """Instance -> registered, initialised node."""
        kube, clock, settings = self.kube, self.clock, self.settings
        metrics, writer, health = self.metrics, self.writer, self.health
        return LifecycleController(
            kube,
            self.machines,
            writer,
            Registration(kube, clock, settings, metrics, writer, health),
            Initialization(kube, self.machines, clock, metrics, writer, self.memory_sizes),
            Liveness(clock, settings, metrics, writer, health),
        )

    @cached_property
    def drift(self) -> DriftController:
        """The condition Drifted."""
        return DriftController(
            kube=self.kube,
            machines=self.machines,
            cloud=self.cloud,
            clock=self.clock,
            gates=self.settings.feature_gates,
            node_classes=self.node_classes,
            catalogues=self.store,
            writer=self.writer,
            metrics=self.metrics,
        )

    @cached_property
    def garbage(self) -> GarbageCollection:
        """What crashed launches and deletions by hand left behind."""
        return GarbageCollection(
            kube=self.kube,
            store=self.machines,
            cloud=self.cloud,
            clock=self.clock,
            settings=self.settings,
            writer=self.writer,
            metrics=self.metrics,
            health=self.health,
            shifted=self.shifted,
        )

    @cached_property
    def handlers(self) -> Handlers:
        """Messages, and the timed listing that does without them."""
        return Handlers(
            kube=self.kube,
            machine_store=self.machines,
            launch=self.launch,
            lifecycle=self.lifecycle,
            node_classes=self.node_classes,
            drift=self.drift,
            metrics=self.metrics,
        )

    @cached_property
    def zonal_shifts(self) -> zonal_shift.ZonalShifts:
        """Marks what is sold in zones that the cluster is shifted away from."""
        return zonal_shift.ZonalShifts(
            kube=self.kube,
            cloud=self.cloud,
            cluster=self.node_classes.cluster,
            catalogues=self.store,
            unavailable=self.unavailable,
            recorder=self.recorder,
            published=self.shifted,
            enabled=self.settings.enable_zonal_shift,
        )

    @cached_property
    def status(self) -> Status:
        """What it says of itself."""
        return Status(self.catalogues, self.garbage.deletions)


async def build(env: Environment[LauncherSettings]) -> Service:
    """The launcher with its loops. Raises ConfigurationError when AWS does not answer."""
    launcher = Launcher(
        kube=env.kube,
        cloud=await open_cloud(env),
        bus=env.bus,
        clock=env.clock,
        metrics=env.metrics,
        recorder=env.recorder,
        settings=env.settings,
        current_epoch=partial(env.epoch_of, "scheduler"),
        access_key=env.access_key,
    )
    loops = [*_watched(launcher), *_consumers(env, launcher), *_timed(env, launcher)]
    return Service("launcher", loops, env.metrics, launcher.status.page, launcher.status.missing)


def _watched(launcher: Launcher) -> list[Loop]:
    """Loops with a rhythm of their own, which say themselves how far they came."""
    catalogues, garbage, clock = launcher.catalogues, launcher.garbage, launcher.clock
    return [
        Loop(
            "catalogue",
            catalogues.run,
            late_seconds=2 * READ_SECONDS,
            # Before the first progress the loop is young, not late: a reading may take READ_SECONDS.
            progress=lambda: catalogues.last_progress or clock.monotonic(),
        ),
        Loop(
            "garbage",
            garbage.run,
            late_seconds=GARBAGE_LATE_SECONDS,
            progress=lambda: garbage.last_progress,
        ),
    ]


def _consumers(env: Environment[LauncherSettings], launcher: Launcher) -> list[Loop]:
    handlers = launcher.handlers
    return [
        env.consumer_loop(
            streams.LAUNCHES,
            "launcher",
            handlers.launches,
            timeout=LAUNCH_TIMEOUT_SECONDS,
            limit=MOST_MACHINES,  # one batch: all of them wait for one call
        ),
        env.consumer_loop(streams.MACHINES, "launcher", handlers.machines),
    ]


def _timed(env: Environment[LauncherSettings], launcher: Launcher) -> list[Loop]:
    """What is done by the clock, whether or not a message asked for it."""
    kube, cloud, clock, machines = launcher.kube, launcher.cloud, launcher.clock, launcher.machines
    writer, metrics, node_classes = launcher.writer, launcher.metrics, launcher.node_classes
    settings = launcher.settings
    gate = settings.feature_gates.node_overlay
    corrections = overlays.Overlays(kube, launcher.store, clock, gate)
    checks = consistency.Consistency(kube, machines, clock, metrics, writer)
    tags = tagging.Tagging(machines, cloud, clock, launcher.shifted)
    unused = instance_profiles.UnusedInstanceProfiles(
        kube, machines, cloud, clock, settings, node_classes.profiles
    )
    labels = reservations.ReservationLabels(kube, machines, cloud)
    blocks = reservations.ReservationUpdates(machines, node_classes, clock, writer, metrics)
    timed = partial(periodic, clock=clock, jitter=env.random)
    return [
        timed("resync", settings.resync_seconds, launcher.handlers.resync),
        timed("node classes", NODE_CLASS_SECONDS, node_classes.refresh_all),
        timed("drift", CHECK_SECONDS, launcher.drift.check),
        timed("launch templates", SWEEP_SECONDS, launcher.template_store.sweep),
        timed("consistency", consistency.PERIOD_SECONDS, checks.check_all),
        timed("overlays", overlays.PERIOD_SECONDS, corrections.check_all),
        timed("tags", tagging.PERIOD_SECONDS, tags.tag_some),
        timed("instance profiles", instance_profiles.PERIOD_SECONDS, unused.sweep),
        timed("zonal shifts", zonal_shift.PERIOD_SECONDS, launcher.zonal_shifts.check),
        timed("reservations", reservations.PERIOD_SECONDS, labels.relabel),
        timed("capacity reservations", reservations.UPDATE_SECONDS, blocks.update),
    ]


ENTRY = Entry("launcher", LauncherSettings, build)
