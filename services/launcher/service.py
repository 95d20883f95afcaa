"""The launcher: Machine -> instance -> registered, initialised node. It decides nothing but which offer to take.

Every effect has its intent on the API server first (see ``launch``). Without messages it still does all its work,
a resync period later.
"""

from __future__ import annotations

from functools import partial

from services.launcher.catalogues import READ_SECONDS, Catalogues, Reading
from services.launcher.garbage import Garbage
from services.launcher.handlers import Handlers
from services.launcher.launch import Launch
from services.launcher.node_classes import NodeClasses
from services.launcher.registration import Registration
from services.launcher.templates import Templates
from services.launcher.writing import Writer
from shared import streams
from shared.aws import open_cloud
from shared.cloud.instance_model import ModelSettings
from shared.environment import Entry, Environment
from shared.kube.machines import Machines
from shared.mirror.offerings import CatalogueStore, UnavailableOfferings
from shared.runtime import Loop, Service, periodic
from shared.settings import LauncherSettings

NODE_CLASS_SECONDS = 60.0
LAUNCH_TIMEOUT_SECONDS = 120.0


async def build(env: Environment[LauncherSettings]) -> Service:
    """Wire the launcher."""
    settings = env.settings
    cloud = await open_cloud(env)
    store = CatalogueStore(env.bus.redis, env.bus.prefix)
    model = ModelSettings(
        vm_memory_overhead_percent=settings.vm_memory_overhead_percent,
        reserved_enis=settings.reserved_enis,
        pod_eni=settings.enable_pod_eni,
        eni_limited_pod_density=settings.enable_eni_limited_pod_density,
        isolated_vpc=settings.isolated_vpc,
    )
    reading = Reading(settings.aws_region, settings.aws_endpoint_url, model, settings.log_level)
    catalogues = Catalogues(store, reading, env.clock)
    machines = Machines(env.kube)
    writer = Writer(machines, env.bus, env.clock, env.recorder)
    node_classes = NodeClasses(env.kube, cloud, env.clock, env.recorder, settings)
    launch = Launch(
        kube=env.kube,
        machines=machines,
        cloud=cloud,
        clock=env.clock,
        settings=settings,
        metrics=env.metrics,
        node_classes=node_classes,
        templates=Templates(cloud, node_classes, settings),
        catalogues=store,
        unavailable=UnavailableOfferings(env.bus.redis, env.bus.prefix, env.clock),
        writer=writer,
    )
    registration = Registration(env.kube, machines, env.clock, settings, env.metrics, writer)
    handlers = Handlers(env.kube, machines, launch, registration, node_classes, env.metrics)
    garbage = Garbage(env.kube, machines, cloud, env.clock, settings, writer)

    def status() -> dict[str, object]:
        held = catalogues.held
        return {
            "catalogue": held.generation if held else None,
            "instanceTypes": held.types if held else 0,
        }

    def missing() -> list[str]:
        return [] if catalogues.held else ["the catalogue of instance types is not read yet"]

    timed = partial(periodic, clock=env.clock, jitter=env.random)
    loops = [
        Loop(
            "catalogue",
            catalogues.run,
            late_seconds=2 * READ_SECONDS,
            progress=lambda: catalogues.last_progress or env.clock.monotonic(),
        ),
        env.consumer_loop(
            streams.LAUNCHES, "launcher", handlers.launches, timeout=LAUNCH_TIMEOUT_SECONDS
        ),
        env.consumer_loop(streams.MACHINES, "launcher", handlers.machines),
        timed("resync", settings.resync_seconds, handlers.resync),
        timed("node classes", NODE_CLASS_SECONDS, node_classes.refresh_all),
        timed("garbage", settings.garbage_period, garbage.sweep),
    ]
    return Service("launcher", loops, env.metrics, status, missing)


ENTRY = Entry("launcher", LauncherSettings, build)
