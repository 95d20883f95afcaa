"""Servers and clients for the tests of shared.kube."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.kube.client import Kube
from shared.kube.transport.connection import Timeouts
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import cluster, connect, write_kubeconfig
from tests.support.cluster.scripted_api import ScriptedApi, scripted_api

__all__ = ["cluster"]


@pytest.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    """A server to script."""
    async with scripted_api() as server:
        yield server


@pytest.fixture
async def kube(api: ScriptedApi, tmp_path: Path) -> AsyncIterator[Kube]:
    """A client of the scripted server that loses patience fast."""
    timeouts = Timeouts(connect=1, read=0.5, total=2, watch_silence=0.3)
    client = await connect(write_kubeconfig(tmp_path / "kubeconfig", api.url), timeouts)
    yield client
    await client.close()


@pytest.fixture
def clock() -> FakeClock:
    """A clock in the test's hand."""
    return FakeClock()
