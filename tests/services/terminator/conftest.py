"""An API server whose clock is in the test's hand, and a terminator put together as in its service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from local.cluster.storage.store import Store
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.instance_calls import InstanceCalls
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.redis.bus import Bus
from tests.services.conftest import Control, store_with_our_kinds
from tests.services.terminator.world import FORGETFUL, World
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig


@pytest.fixture
def clock() -> FakeClock:
    """Whole seconds, as the API server writes them."""
    return FakeClock(wall=float(int(SystemClock().now())))


@pytest.fixture
def store(clock: FakeClock) -> Store:
    return store_with_our_kinds(clock)


@pytest.fixture
async def kube(tmp_path: Path, store: Store) -> AsyncIterator[Kube]:
    """A client of an empty API server that knows our kinds and lives by the test's clock."""
    with embedded_api_server(store=store) as url:
        client = await connect(write_kubeconfig(tmp_path / "kubeconfig", url))
        yield client
        await client.close()


@pytest.fixture
async def world(
    kube: Kube, store: Store, cloud: Cloud, control: Control, bus: Bus, clock: FakeClock, metrics: Metrics,
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch,
) -> World:  # fmt: skip
    """Calls to EC2 are not collected here: with time in the test's hand nobody else would come. For the same reason
    instances start and end at once: turns of the test's clock are over before a fifth of a real second is.
    """
    control.post("settings", **FORGETFUL)
    at_once = InstanceCalls(cloud.ec2._calls, idle_seconds=0.0)
    monkeypatch.setattr(cloud.ec2, "_by_id", at_once)
    return World(kube, store, cloud, control, bus, clock, metrics, recorder)
