"""The launcher's parts, as ``services.launcher.service.build`` puts them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from services.launcher.garbage import Garbage
from services.launcher.launch import Launch
from services.launcher.node_classes import NodeClasses
from services.launcher.registration import Registration
from services.launcher.templates import Templates
from services.launcher.writing import Writer
from shared.bus import Bus
from shared.clock import Clock
from shared.cloud.session import Cloud
from shared.domain.instance_types import Catalogue, encode_catalogue
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.mirror.offerings import CatalogueStore, UnavailableOfferings
from shared.settings import LauncherSettings, read
from tests.services.conftest import CLUSTER
from tests.support.builders import make_catalogue, make_type
from tests.support.fake_clock import FakeClock


@dataclass
class Launcher:
    """One incarnation of the service."""

    launch: Launch
    garbage: Garbage
    registration: Registration


def build_launcher(
    kube: Kube, cloud: Cloud, bus: Bus, clock: Clock, metrics: Metrics, recorder: Recorder
) -> Launcher:
    settings = read(LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2")
    machines = Machines(kube)
    writer = Writer(machines, bus, clock, recorder)
    node_classes = NodeClasses(kube, cloud, clock, recorder, settings)
    launch = Launch(
        kube=kube,
        machines=machines,
        cloud=cloud,
        clock=clock,
        settings=settings,
        metrics=metrics,
        node_classes=node_classes,
        templates=Templates(cloud, node_classes, settings),
        catalogues=CatalogueStore(bus.redis, bus.prefix),
        unavailable=UnavailableOfferings(bus.redis, bus.prefix, clock),
        writer=writer,
    )
    garbage = Garbage(kube, machines, cloud, clock, settings, writer)
    return Launcher(launch, garbage, Registration(kube, machines, clock, settings, metrics, writer))


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
) -> Callable[[], Launcher]:
    """``start()``: a new incarnation, which remembers nothing of the last."""
    store = CatalogueStore(bus.redis, bus.prefix)
    await store.put(encode_catalogue(catalogue), catalogue.generation)
    return lambda: build_launcher(kube, cloud, bus, clock, metrics, recorder)
