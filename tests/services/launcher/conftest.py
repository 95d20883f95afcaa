"""The launcher's parts, as ``services.launcher.service.build`` puts them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from services.launcher.garbage_collection.controller import GarbageCollection
from services.launcher.launch.admission import CurrentEpoch, no_election
from services.launcher.launch.assembly import assemble
from services.launcher.launch.controller import LaunchController
from services.launcher.launch_template.cluster_dns import ClusterDns
from services.launcher.launch_template.controller import LaunchTemplates
from services.launcher.launch_template.store import TemplateStore
from services.launcher.lifecycle.controller import Registration
from services.launcher.machine_writer import MachineWriter
from services.launcher.node_class.controller import NodeClasses
from shared.bus import Bus
from shared.cloud.session import Cloud
from shared.domain.instance_types import Catalogue, encode_catalogue
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.mirror.launch_backoff import LaunchBackoff
from shared.mirror.offerings import CatalogueStore, UnavailableOfferings
from shared.mirror.pool_health import PoolHealth
from shared.mirror.registrations import RegistrationOutcomes
from shared.mirror.shifted_zones import ShiftedZones
from shared.mirror.template_use import TemplateUse
from shared.settings import LauncherSettings, read
from tests.services.conftest import CLUSTER
from tests.services.launcher.lifecycle_world import world
from tests.support.builders import make_catalogue, make_type
from tests.support.fake_clock import FakeClock

__all__ = ["world"]


@dataclass
class Launcher:
    """One incarnation of the service."""

    launch: LaunchController
    garbage: GarbageCollection
    registration: Registration


def build_launcher(
    kube: Kube,
    cloud: Cloud,
    bus: Bus,
    clock: FakeClock,
    metrics: Metrics,
    recorder: Recorder,
    current_epoch: CurrentEpoch = no_election,
    **settings_changes: Any,
) -> Launcher:
    """``clock`` goes on by itself while a call waits for its turn. No dry runs: faults hit the launch itself."""
    chosen = {"disable_dry_run": True, **settings_changes}
    settings = read(LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2", **chosen)

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    machines = Machines(kube)
    writer = MachineWriter(machines, bus, clock, recorder)
    node_classes = NodeClasses(kube, cloud, clock, recorder, settings)
    use = TemplateUse(bus.redis, bus.prefix, clock)
    stored = TemplateStore(kube, cloud, clock, settings, use)
    backoff = LaunchBackoff(bus.redis, bus.prefix, clock)
    launch = assemble(
        kube=kube,
        machines=machines,
        cloud=cloud,
        clock=clock,
        settings=settings,
        metrics=metrics,
        node_classes=node_classes,
        templates=LaunchTemplates(node_classes.cluster, ClusterDns(kube, clock), settings, stored),
        catalogues=CatalogueStore(bus.redis, bus.prefix),
        unavailable=UnavailableOfferings(bus.redis, bus.prefix, clock),
        backoff=backoff,
        writer=writer,
        current_epoch=current_epoch,
        sleep=sleep,
    )
    health = PoolHealth(RegistrationOutcomes(bus.redis, bus.prefix), backoff)
    shifted = ShiftedZones(bus.redis, bus.prefix, clock)
    garbage = GarbageCollection(
        kube, machines, cloud, clock, settings, writer, metrics, health, shifted
    )
    registration = Registration(kube, machines, clock, settings, metrics, writer, health)
    return Launcher(launch, garbage, registration)


@pytest.fixture
def catalogue() -> Catalogue:
    """Two types that EC2 has."""
    return make_catalogue((make_type("m5.large"), make_type("m5.xlarge", 4, 16, 192_000)))


@pytest.fixture
async def start(
    kube: Kube,
    cloud: Cloud,
    bus: Bus,
    clock: FakeClock,
    metrics: Metrics,
    recorder: Recorder,
    catalogue: Catalogue,
) -> Callable[..., Launcher]:
    """``start()``: a new incarnation, which remembers nothing of the last; takes settings by name."""
    store = CatalogueStore(bus.redis, bus.prefix)
    await store.put(encode_catalogue(catalogue), catalogue.generation)
    return partial(build_launcher, kube, cloud, bus, clock, metrics, recorder)
