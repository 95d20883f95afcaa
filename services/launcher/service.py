"""The launcher: Machine -> instance -> registered, initialised node. It decides nothing but which offer to take.

Every effect has its intent on the API server first (see ``launch``). Without messages it still does all its work,
a resync period later.
"""

from __future__ import annotations

from functools import partial

from services.launcher import (
    consistency,
    overlays,
    profile_garbage,
    reservations,
    tagging,
    zonal_shift,
)
from services.launcher.assembly import assemble
from services.launcher.catalogues import Catalogues
from services.launcher.drift_marks import LOOK_SECONDS, DriftMarks
from services.launcher.garbage import Garbage
from services.launcher.handlers import Handlers
from services.launcher.launch import MOST_MACHINES
from services.launcher.memory import DiscoveredMemory
from services.launcher.node_classes import NodeClasses
from services.launcher.reading import READ_SECONDS, Reading
from services.launcher.registration import Registration
from services.launcher.template_store import SWEEP_SECONDS, TemplateStore
from services.launcher.templates import Templates
from services.launcher.writing import Writer
from shared import streams
from shared.aws import open_cloud, role_of
from shared.clock import Clock
from shared.cloud.instance_model import ModelSettings
from shared.cloud.session import Cloud
from shared.environment import Entry, Environment
from shared.kube.machines import Machines
from shared.mirror.launch_backoff import LaunchBackoff
from shared.mirror.learned_memory import LearnedMemory
from shared.mirror.offerings import CatalogueSource, CatalogueStore, UnavailableOfferings
from shared.mirror.overlays import OverlaidCatalogues
from shared.mirror.pool_health import PoolHealth
from shared.mirror.registrations import RegistrationOutcomes
from shared.mirror.reservations import ReservationStore
from shared.mirror.shifted_zones import ShiftedZones
from shared.mirror.template_use import TemplateUse
from shared.runtime import Loop, Service, periodic
from shared.settings import LauncherSettings
from shared.settings.own import AccessKey

NODE_CLASS_SECONDS = 60.0
LAUNCH_TIMEOUT_SECONDS = 120.0
GARBAGE_LATE_SECONDS = 360.0


async def build(env: Environment[LauncherSettings]) -> Service:
    """Wire the launcher."""
    settings = env.settings
    cloud = await open_cloud(env)
    store = CatalogueStore(env.bus.redis, env.bus.prefix)
    discovered = DiscoveredMemory(LearnedMemory(env.bus.redis, env.bus.prefix), env.clock)
    catalogues = Catalogues(store, _reading(settings, env.access_key), env.clock, discovered)
    machines = Machines(env.kube)
    writer = Writer(machines, env.bus, env.clock, env.recorder)
    node_classes = NodeClasses(
        env.kube, cloud, env.clock, env.recorder, settings,
        ReservationStore(env.bus.redis, env.bus.prefix),
    )  # fmt: skip
    use = TemplateUse(env.bus.redis, env.bus.prefix, env.clock)
    stored = TemplateStore(env.kube, cloud, env.clock, settings, use)
    backoff = LaunchBackoff(env.bus.redis, env.bus.prefix, env.clock)
    launch = assemble(
        kube=env.kube,
        machines=machines,
        cloud=cloud,
        clock=env.clock,
        settings=settings,
        metrics=env.metrics,
        node_classes=node_classes,
        templates=Templates(node_classes, settings, stored),
        catalogues=_corrected(env, store),
        unavailable=UnavailableOfferings(env.bus.redis, env.bus.prefix, env.clock),
        backoff=backoff,
        writer=writer,
        current_epoch=partial(env.epoch_of, "scheduler"),
    )
    health = PoolHealth(RegistrationOutcomes(env.bus.redis, env.bus.prefix), backoff)
    registration = Registration(
        env.kube, machines, env.clock, settings, env.metrics, writer, health, discovered
    )
    drift = DriftMarks(
        env.kube, machines, cloud, env.clock, settings.feature_gates, node_classes, store, writer,
        env.metrics,
    )  # fmt: skip
    handlers = Handlers(env.kube, machines, launch, registration, node_classes, drift, env.metrics)
    shifted = ShiftedZones(env.bus.redis, env.bus.prefix, env.clock)
    garbage = Garbage(
        env.kube, machines, cloud, env.clock, settings, writer, env.metrics, health, shifted
    )

    def status() -> dict[str, object]:
        held = catalogues.held
        return {
            "catalogue": held.generation if held else None,
            "instanceTypes": held.types if held else 0,
            "catalogueProblem": catalogues.problem,
            "deletionsHeld": sorted(set(garbage.alarm.held.values())),
        }

    def missing() -> list[str]:
        return [] if catalogues.held else ["the catalogue of instance types is not read yet"]

    loops = [
        *_timed(catalogues, garbage, env.clock),
        *_work(env, handlers, node_classes, drift, stored),
        *_upkeep(env, cloud, store, node_classes, machines, writer),
    ]
    return Service("launcher", loops, env.metrics, status, missing)


def _timed(catalogues: Catalogues, garbage: Garbage, clock: Clock) -> list[Loop]:
    return [
        Loop(
            "catalogue",
            catalogues.run,
            late_seconds=2 * READ_SECONDS,
            progress=lambda: catalogues.last_progress or clock.monotonic(),
        ),
        Loop(
            "garbage",
            garbage.run,
            late_seconds=GARBAGE_LATE_SECONDS,
            progress=lambda: garbage.last_progress,
        ),
    ]


def _reading(settings: LauncherSettings, access_key: AccessKey | None) -> Reading:
    model = ModelSettings(
        vm_memory_overhead_percent=settings.vm_memory_overhead_percent,
        reserved_enis=settings.reserved_enis,
        pod_eni=settings.enable_pod_eni,
        eni_limited_pod_density=settings.enable_eni_limited_pod_density,
        isolated_vpc=settings.isolated_vpc,
    )
    region, endpoint = settings.aws_region, settings.aws_endpoint_url
    role = role_of(settings)
    return Reading(region, endpoint, model, settings.log_level, role, access_key)


def _corrected(env: Environment[LauncherSettings], store: CatalogueStore) -> CatalogueSource:
    """As administrators correct it (NO-01)."""
    if not env.settings.feature_gates.node_overlay:
        return store
    return OverlaidCatalogues(store, overlays.ListedOverlays(env.kube, env.clock))


def _work(
    env: Environment[LauncherSettings],
    handlers: Handlers,
    node_classes: NodeClasses,
    drift: DriftMarks,
    stored: TemplateStore,
) -> list[Loop]:
    """What messages ask for, and the same by the clock."""
    timed = partial(periodic, clock=env.clock, jitter=env.random)
    return [
        env.consumer_loop(
            streams.LAUNCHES,
            "launcher",
            handlers.launches,
            timeout=LAUNCH_TIMEOUT_SECONDS,
            limit=MOST_MACHINES,
        ),
        env.consumer_loop(streams.MACHINES, "launcher", handlers.machines),
        timed("resync", env.settings.resync_seconds, handlers.resync),
        timed("node classes", NODE_CLASS_SECONDS, node_classes.refresh_all),
        timed("drift", LOOK_SECONDS, drift.look),
        timed("launch templates", SWEEP_SECONDS, stored.sweep),
    ]


def _upkeep(
    env: Environment[LauncherSettings],
    cloud: Cloud,
    store: CatalogueStore,
    node_classes: NodeClasses,
    machines: Machines,
    writer: Writer,
) -> list[Loop]:
    """What is looked at by the clock alone, beside launches and the lives of machines."""
    settings, redis, prefix = env.settings, env.bus.redis, env.bus.prefix
    timed = partial(periodic, clock=env.clock, jitter=env.random)
    gate = settings.feature_gates.node_overlay
    corrections = overlays.Overlays(env.kube, store, env.clock, gate)
    checks = consistency.Consistency(env.kube, machines, env.clock, env.metrics, writer)
    shifted = ShiftedZones(redis, prefix, env.clock)
    tags = tagging.Tagging(machines, cloud, env.clock, shifted)
    unused = profile_garbage.ProfileGarbage(
        env.kube, machines, cloud, env.clock, settings, node_classes.profiles
    )
    unavailable = UnavailableOfferings(redis, prefix, env.clock)
    shifts = zonal_shift.ZonalShifts(
        env.kube, cloud, node_classes, store, unavailable, env.recorder, shifted,
        settings.enable_zonal_shift,
    )  # fmt: skip
    reserved = reservations.Reservations(env.kube, machines, cloud)
    told = reservations.ReservationNews(machines, node_classes, env.clock, writer, env.metrics)
    return [
        timed("consistency", consistency.PERIOD_SECONDS, checks.check_all),
        timed("overlays", overlays.PERIOD_SECONDS, corrections.look),
        timed("tags", tagging.PERIOD_SECONDS, tags.tag_some),
        timed("instance profiles", profile_garbage.PERIOD_SECONDS, unused.sweep),
        timed("zonal shifts", zonal_shift.PERIOD_SECONDS, shifts.look),
        timed("reservations", reservations.PERIOD_SECONDS, reserved.relabel),
        timed("capacity reservations", reservations.TOLD_SECONDS, told.look),
    ]


ENTRY = Entry("launcher", LauncherSettings, build)
