"""Fixture ``cluster``: a Kubernetes API server over HTTP and a ``Kube`` connected to it.

The embedded API server of ``local.cluster`` runs in a thread on a free port, empty, one per test.
With ``DOVETAIL_TEST_KUBECONFIG`` set, the cluster it names is used instead, so tests keep to
``cluster.namespace``.
Use: ``from tests.support.cluster.fixture import cluster  # noqa: F401`` in a conftest.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest
import uvicorn

from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.resources import NAMESPACES
from shared.kube.transport.connection import Timeouts
from tests.support.waiting import wait_until


@dataclass
class Cluster:
    """A running API server. ``namespace`` is fresh; ``url`` is empty for a cluster from outside."""

    url: str
    kubeconfig: Path
    kube: Kube
    namespace: str


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start an API server and connect a client."""
    outside = os.environ.get("DOVETAIL_TEST_KUBECONFIG")
    with embedded_api_server(bool(outside)) as url:
        path = Path(outside) if outside else write_kubeconfig(tmp_path / "kubeconfig", url)
        kube = await connect(path)
        namespace = f"test-{SystemRandom().getrandbits(40):010x}"
        await kube.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield Cluster(url, path, kube, namespace)
        await kube.delete(NAMESPACES, namespace)
        await kube.close()


async def connect(kubeconfig: Path, timeouts: Timeouts | None = None) -> Kube:
    """A client for tests, with a high rate limit and repeatable jitter."""
    return await Kube.connect(
        str(kubeconfig),
        clock=SystemClock(),
        random=Random(11),
        user_agent="dovetail-tests/1",
        qps=100_000,
        burst=100_000,
        timeouts=timeouts,
    )


@contextmanager
def frozen_api_server(path: Path) -> Iterator[Path]:
    """The kubeconfig, written to ``path``, of an API server that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield write_kubeconfig(path, f"http://127.0.0.1:{server.getsockname()[1]}")


def write_kubeconfig(path: Path, url: str) -> Path:
    """A kubeconfig for a server without TLS or users."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": {}}],
    }
    path.write_text(json.dumps(config))  # YAML, and fifty times quicker
    return path


@contextmanager
def embedded_api_server(outside: bool = False, store: Any = None) -> Iterator[str]:
    """Run the embedded API server in a thread; yields its URL ("" when ``outside``).

    ``store``: a ``local.cluster.storage.store.Store`` of the test's own, with a clock in its hand.
    """
    if outside:
        yield ""
        return
    # Here, so that tests against a cluster from outside do not need the embedded one.
    from local.cluster.api.listening import listen
    from local.cluster.api.server import build_app
    from local.cluster.storage.store import Store

    app = build_app(store or Store(SystemClock(), Random(7)))
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    loop, stopped = asyncio.new_event_loop(), asyncio.Event()
    serving = _serve_until(stopped, config, listener)
    thread = threading.Thread(target=_run, args=(loop, serving), daemon=True)
    thread.start()
    try:
        # Connections wait in the listener's backlog until the server accepts them.
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(timeout=60)
        listener.close()


def _run(loop: asyncio.AbstractEventLoop, serving: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(serving)


async def _serve_until(
    stopped: asyncio.Event, config: uvicorn.Config, listener: socket.socket
) -> None:
    # Cut off, not asked to stop: uvicorn takes 200 ms for that, and every test has a server of its own.
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await stopped.wait()
    serving.cancel()
    for connection in list(server.server_state.connections):
        if connection.transport:
            connection.transport.abort()
    for one in server.servers:
        one.close()


async def eventually(condition: Any) -> None:
    """Wait until ``condition()`` holds."""
    await wait_until(condition, "the state that the test waits for", every=0.005)
