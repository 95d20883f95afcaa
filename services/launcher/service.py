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
from services.launcher.cluster import ClusterDns
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
from services.launcher.launch.unavailable_offerings import CapacityErrors
from services.launcher.launch_template.controller import (
    SWEEP_SECONDS,
    LaunchTemplates,
    TemplateStore,
)
from services.launcher.lifecycle import nodes, tagging
from services.launcher.lifecycle.controller import LifecycleController
from services.launcher.lifecycle.steps import LifecycleSteps
from services.launcher.machine_writer import MachineWriter
from services.launcher.node_class.controller import NodeClasses
from services.launcher.node_class.discovery import turn_seconds
from services.launcher.ports import Ports
from shared.cloud.catalogue.instance_model import ModelSettings
from shared.kube.machines import Machines
from shared.redis import streams
from shared.redis.mirror.catalogue.learned_ram import LearnedMemory
from shared.redis.mirror.catalogue.offerings import (
    CatalogueSource,
    CatalogueStore,
    UnavailableOfferings,
)
from shared.redis.mirror.catalogue.reservations import ReservationStore
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff
from shared.redis.mirror.pools.pool_health import PoolHealth
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from shared.redis.mirror.template_use import TemplateUse
from shared.runtime.aws import open_cloud, role_of
from shared.runtime.environment import Entry, Environment
from shared.runtime.services import Loop, Service, periodic
from shared.settings import LauncherSettings
from shared.settings.own import AccessKey

LAUNCH_TIMEOUT_SECONDS = 120.0
GARBAGE_LATE_SECONDS = 360.0


@dataclass
class Launcher:
    """The parts of one launcher. Each is made at its first use and then kept: whoever needs one part makes no other.

    ``current_epoch``: the scheduler's fencing epoch by a quorum read, as ``shared.kube.lease.current_epoch`` gives it
    (F14). ``sleep``: how a CreateFleet call waits in its queue.
    """

    ports: Ports
    current_epoch: CurrentEpoch = no_election
    sleep: Sleep = asyncio.sleep
    access_key: AccessKey | None = None
    """The key of the child that reads the catalogue; None: AWS's usual sources."""

    def __post_init__(self) -> None:
        bus, clock = self.ports.bus, self.ports.clock
        self._redis = bus.redis, bus.prefix
        self.machines = Machines(self.ports.kube)
        self.writer = MachineWriter(self.ports, self.machines)
        self.unavailable = UnavailableOfferings(*self._redis)
        self.shifted = ShiftedZones(*self._redis, clock)
        self.backoff = LaunchBackoff(*self._redis)
        self.health = PoolHealth(RegistrationOutcomes(*self._redis), self.backoff)
        self.store = CatalogueStore(*self._redis)
        self.memory_sizes = MemorySizes(LearnedMemory(*self._redis), clock)

    @cached_property
    def corrected(self) -> CatalogueSource:
        """The catalogue as administrators correct it (NO-01)."""
        if not self.ports.settings.feature_gates.node_overlay:
            return self.store
        return overlays.overlaid_catalogues(self.store, self.ports.kube, self.ports.clock)

    @cached_property
    def catalogues(self) -> Catalogues:
        """Reads AWS and publishes the catalogue."""
        settings = self.ports.settings
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
        return Catalogues(self.store, request, self.ports.clock, self.memory_sizes)

    @cached_property
    def node_classes(self) -> NodeClasses:
        """Node classes of both generations."""
        return NodeClasses(self.ports, ReservationStore(*self._redis), self.store)

    @cached_property
    def template_store(self) -> TemplateStore:
        return TemplateStore(self.ports, TemplateUse(*self._redis))

    @cached_property
    def templates(self) -> LaunchTemplates:
        dns = ClusterDns(self.ports.kube, self.ports.clock)
        cluster = self.node_classes.cluster
        return LaunchTemplates(cluster, dns, self.ports.settings, self.template_store)

    @cached_property
    def launch(self) -> LaunchController:
        """Machine -> instance."""
        ports, catalogues = self.ports, self.corrected
        admission = Admission(ports, self.backoff, self.current_epoch)
        records = LaunchRecords(ports, self.machines)
        subnets = SubnetReservations(catalogues, ports.clock, self.node_classes.cluster.is_ipv6)
        errors = CapacityErrors(
            self.unavailable,
            catalogues,
            subnets,
            ports.settings,
            ports.metrics,
            ShortageHistory(*self._redis, ports.clock, ports.settings),
        )
        results = LaunchResults(ports, self.machines, self.writer, catalogues, self.node_classes)
        requests = LaunchRequests(
            ports, admission, self.node_classes, self.templates, catalogues, errors, subnets
        )
        # The rate is a setting that changes while the service runs: read at each call, not once here.
        pace = Pace(lambda: ports.settings.create_fleet_per_second)
        saga = LaunchSaga(
            ports=ports,
            admission=admission,
            records=records,
            queue=CallQueue(pace, ports.clock, self.sleep),
            budget=CallBudget(ports.clock),
            subnets=subnets,
            capacity_errors=errors,
            templates=self.templates,
            results=results,
        )
        return LaunchController(self.machines, records, requests, saga, results, ports.settings)

    @cached_property
    def lifecycle(self) -> LifecycleController:
        """Instance -> registered, initialised node."""
        steps = LifecycleSteps(
            self.ports, self.machines, self.writer, self.health, self.memory_sizes.learn
        )
        return LifecycleController(self.ports.kube, self.machines, self.writer, steps)

    @cached_property
    def drift(self) -> DriftController:
        return DriftController(
            self.ports, self.machines, self.node_classes, self.store, self.writer
        )

    @cached_property
    def garbage(self) -> GarbageCollection:
        """What crashed launches and deletions by hand left behind."""
        return GarbageCollection(self.ports, self.machines, self.writer, self.health, self.shifted)

    @cached_property
    def handlers(self) -> Handlers:
        """Messages, and the timed listing that does without them."""
        return Handlers(
            self.ports, self.machines, self.launch, self.lifecycle, self.node_classes, self.drift
        )

    def status(self) -> dict[str, object]:
        """The launcher's part of ``/status``."""
        held = self.catalogues.held
        return {
            "catalogue": held.generation if held else None,
            "instanceTypes": held.types if held else 0,
            "catalogueProblem": self.catalogues.problem,
            "deletionsHeld": sorted(set(self.garbage.deletions.held.values())),
        }

    def missing(self) -> list[str]:
        """Why it is not ready, in words; empty when it is."""
        if self.catalogues.held:
            return []
        return ["the catalogue of instance types is not read yet"]


async def build(env: Environment[LauncherSettings]) -> Service:
    """The launcher with its loops. Raises ConfigurationError when AWS does not answer."""
    cloud = await open_cloud(env)
    launcher = Launcher(
        Ports(
            env.kube, cloud, env.bus, env.clock, env.metrics, env.recorder, env.settings, env.tracer
        ),
        current_epoch=partial(env.epoch_of, "scheduler"),
        access_key=env.access_key,
    )
    loops = [*_watched(launcher), *_consumers(env, launcher), *_timed(env, launcher)]
    return Service("launcher", loops, env.metrics, launcher.status, launcher.missing)


def _watched(launcher: Launcher) -> list[Loop]:
    """Loops with a rhythm of their own, which say themselves how far they came."""
    catalogues, garbage = launcher.catalogues, launcher.garbage
    return [
        Loop(
            "catalogue",
            catalogues.run,
            late_seconds=2 * READ_SECONDS,
            progress=lambda: catalogues.last_progress or None,
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
    ports, machines, writer = launcher.ports, launcher.machines, launcher.writer
    node_classes = launcher.node_classes
    corrections = overlays.Overlays(
        ports.kube, launcher.store, ports.clock, ports.settings.feature_gates.node_overlay
    )
    checks = nodes.Consistency(ports, machines, writer)
    handlers = launcher.handlers
    tags = tagging.Tagging(
        machines, lambda: handlers.listed, ports.cloud, ports.clock, launcher.shifted
    )
    unused = instance_profiles.UnusedInstanceProfiles(ports, machines, node_classes.profiles)
    shifts = zonal_shift.ZonalShifts(
        ports, node_classes.cluster, launcher.store, launcher.unavailable, launcher.shifted
    )
    reserved = reservations.Reservations(
        ports, machines, lambda: handlers.listed, node_classes, writer
    )
    timed = partial(periodic, clock=ports.clock, jitter=env.random)
    return [
        timed("resync", ports.settings.resync_seconds, handlers.resync),
        timed("node classes", turn_seconds(ports.settings), node_classes.refresh_all),
        timed("drift", CHECK_SECONDS, launcher.drift.check),
        timed("launch templates", SWEEP_SECONDS, launcher.template_store.sweep),
        timed("consistency", nodes.PERIOD_SECONDS, checks.check_all),
        timed("overlays", corrections.period_seconds, corrections.check_all),
        timed("tags", tagging.PERIOD_SECONDS, tags.tag_some),
        timed("instance profiles", instance_profiles.PERIOD_SECONDS, unused.sweep),
        timed("zonal shifts", zonal_shift.PERIOD_SECONDS, shifts.check),
        timed("reservations", reservations.PERIOD_SECONDS, reserved.relabel),
        timed("capacity reservations", reservations.UPDATE_SECONDS, reserved.update),
    ]


ENTRY = Entry("launcher", LauncherSettings, build)
