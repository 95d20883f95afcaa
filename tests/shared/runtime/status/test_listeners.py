"""Where a service listens, by its settings."""

from __future__ import annotations

from typing import Any

import pytest

from shared.concurrency.clock import SystemClock
from shared.metrics import Metrics
from shared.runtime.environment import listeners_of
from shared.runtime.services import Service
from shared.runtime.status import PROBE_LIMITS, STATUS_LIMITS, server_loop
from shared.settings import WatcherSettings, read
from tests.support.network.status_server import free_port, running, statuses

CLOCK = SystemClock()


def settings(**said: Any) -> WatcherSettings:
    return read(WatcherSettings, cluster_name="one", **said)


def service() -> Service:
    return Service("one", [], Metrics("one"), dict)


def test_without_a_port_of_their_own_the_probes_are_on_the_status_port_alone() -> None:
    (only,) = listeners_of([service()], settings(), CLOCK)
    assert (only.host, only.port, only.limits) == ("127.0.0.1", 8080, STATUS_LIMITS)


@pytest.mark.parametrize(("host", "expected"), [("", "0.0.0.0"), ("127.0.0.1", "127.0.0.1")])
def test_the_probes_listen_where_the_status_pages_do_unless_told_otherwise(
    host: str, expected: str
) -> None:
    told = settings(status_host="0.0.0.0", probe_host=host, probe_port=8081)
    _, probes = listeners_of([service()], told, CLOCK)
    assert (probes.host, probes.port, probes.limits) == (expected, 8081, PROBE_LIMITS)
    assert probes.settings == "PROBE_HOST and PROBE_PORT"


async def test_both_ports_serve_the_probes_and_one_the_rest() -> None:
    told = settings(status_port=free_port(), probe_port=free_port())
    loop = server_loop(*listeners_of([service()], told, CLOCK))
    async with running(loop, told.status_port, told.probe_port):
        for path in ("/healthz", "/readyz"):
            assert await statuses(told.status_port, path, 1) == [200]
            assert await statuses(told.probe_port, path, 1) == [200]
        for path in ("/metrics", "/status"):
            assert await statuses(told.status_port, path, 1) == [200]
            assert await statuses(told.probe_port, path, 1) == [404]
