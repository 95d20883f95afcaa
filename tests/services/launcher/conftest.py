"""Launchers as the service puts them together (``services.launcher.service.Launcher``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from services.launcher.launch.admission import CurrentEpoch, no_election
from services.launcher.ports import Ports
from services.launcher.service import Launcher
from shared.cloud.client.session import Cloud
from shared.domain.instance_types.types import Catalogue, encode_catalogue
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from shared.settings import LauncherSettings, read
from tests.services.conftest import CLUSTER
from tests.services.launcher.lifecycle_world import world
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_catalogue, make_type

__all__ = ["Launcher", "world"]


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
    """``clock`` goes on by itself while a call waits in its queue. No dry runs: faults hit the launch itself."""
    chosen = {"disable_dry_run": True, **settings_changes}
    settings = read(LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2", **chosen)

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    ports = Ports(kube, cloud, bus, clock, metrics, recorder, settings)
    return Launcher(ports, current_epoch=current_epoch, sleep=sleep)


@pytest.fixture
def ports(
    kube: Kube, cloud: Cloud, bus: Bus, clock: FakeClock, metrics: Metrics, recorder: Recorder
) -> Ports:
    """With the settings that have no default value; ``with_settings`` changes others."""
    settings = read(LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2")
    return Ports(kube, cloud, bus, clock, metrics, recorder, settings)


def with_settings(ports: Ports, **changes: Any) -> Ports:
    """The same ports with other settings."""
    settings = read(LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2", **changes)
    return replace(ports, settings=settings)


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
