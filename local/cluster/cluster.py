"""The whole local cluster in one process: store, HTTP server and control plane.

``running_cluster`` is for programs and tests, ``run_cluster`` for the command line. The port is bound before anything
else starts, so the URL is known and the port cannot be taken by another process. At the end, open watches get one
second before they are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from local.cluster.api.authorization.accounts import write_account_kubeconfigs
from local.cluster.api.authorization.authentication import access_to
from local.cluster.api.authorization.tokens import Tokens
from local.cluster.api.listening import listen
from local.cluster.api.server import ApiServer
from local.cluster.builtin.manifests import create_accounts
from local.cluster.builtin.services import create_services
from local.cluster.control_plane.running import ControlPlane
from local.cluster.kubeconfig import write_kubeconfig
from local.cluster.settings import ClusterSettings
from local.cluster.storage.store import Store
from shared.concurrency.clock import Clock, SystemClock
from shared.concurrency.tasks import TaskGroup
from shared.errors import ConfigurationError
from shared.log import get_logger

log = get_logger(__name__)

GC_THRESHOLDS = (50_000, 50, 100)
"""Stored objects have no reference cycles; a full collection over 10,000 pods would block the event loop for 0.25 s."""


@dataclass(frozen=True)
class RunningCluster:
    """A cluster that answers at ``url``. ``store`` gives programs in this process direct access."""

    url: str
    store: Store


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        text = f"CLUSTER_HOST, CLUSTER_PORT: cannot listen on {host}:{port}: {error}"
        raise ConfigurationError(text) from error


@contextlib.asynccontextmanager
async def running_cluster(
    settings: ClusterSettings, *, clock: Clock | None = None, rng: random.Random | None = None
) -> AsyncIterator[RunningCluster]:
    """A cluster that runs during the block.

    Raises ConfigurationError for unusable settings. Exceptions of the block itself are raised inside an ExceptionGroup,
    because the cluster's tasks share its task group.
    """
    clock, rng = clock or SystemClock(), rng or random.Random()
    store = Store(clock, rng)
    control_plane = ControlPlane(store, settings, clock, rng)
    control_plane.create_first_objects()
    accounts = _create_accounts(store, settings)
    create_services(store, settings.service_urls)
    listener = _listen(settings.cluster_host, settings.cluster_port)
    url = f"http://{settings.cluster_host}:{listener.getsockname()[1]}"
    access = access_to(store)
    server = ApiServer(store, access)
    async with TaskGroup() as group:
        group.create_task(server.serve(sockets=[listener]))
        working = group.create_task(control_plane.run())
        try:
            await server.is_up.wait()
            _write_kubeconfigs(settings, access.tokens, accounts, url)
            yield RunningCluster(url, store)
        finally:
            working.cancel()
            server.should_exit = True


def _create_accounts(store: Store, settings: ClusterSettings) -> list[dict[str, Any]]:
    if settings.accounts_directory is None:
        return []
    found = create_accounts(store, settings.accounts_directory)
    if settings.further_rights_directory is not None:
        create_accounts(store, settings.further_rights_directory)
    return found


def _write_kubeconfigs(
    settings: ClusterSettings, tokens: Tokens, accounts: list[dict[str, Any]], url: str
) -> None:
    url = settings.cluster_advertise_url or url
    if settings.account_kubeconfigs is not None:
        write_account_kubeconfigs(accounts, tokens, settings.account_kubeconfigs, url)
    # Last: a program that waits for this file can rely on the others.
    if settings.kubeconfig_out is not None:
        write_kubeconfig(settings.kubeconfig_out, url)


async def run_cluster(settings: ClusterSettings) -> None:
    """Run until SIGTERM or SIGINT. Takes over the process: its signal handlers and its garbage collection."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    async with running_cluster(settings) as cluster:
        log.info("cluster is up", url=cluster.url, name=settings.cluster_name)
        await stop.wait()
        log.info("cluster stops")
