"""``python -m tests.support.real_cluster.kubelets``: the local kubelets on a real API server.

Instances of the AWS emulator become its nodes, and pods that it binds run, exactly as in the embedded cluster. Told
what to do by ``KUBECONFIG``, ``KUBELETS_READY_FILE`` and the settings of ``local.cluster``.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any, cast

import yaml

from local.cluster.control_plane import node_of
from local.cluster.errors import ApiError
from local.cluster.informers import Informers, KeyIndex
from local.cluster.kubelet.fleet import BootTimes, Fleet
from local.cluster.kubelet.instances import InstanceClient
from local.cluster.kubelet.node_objects import fixed_node
from local.cluster.kubelet.pods import PodRunner, PodTimes
from local.cluster.recorder import EventRecorder
from local.cluster.settings import ClusterSettings
from local.cluster.store import Store
from local.cluster.supervision import supervise
from shared.clock import SystemClock, rfc3339
from shared.kube.client import Kube
from shared.log import configure
from tests.support.real_cluster.remote_store import RemoteInformers, RemoteStore


class NoEvents:
    """Events of kubelets are not what these tests are about."""

    def record(self, *_event: object, **_more: object) -> None:
        return None


def remote_store(kubeconfig: Path) -> RemoteStore:
    """The API server of a kubeconfig with a token."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    token = config["users"][0]["user"]["token"]
    return RemoteStore(cluster["server"], token, cluster["certificate-authority"])


def create_fixed_nodes(store: RemoteStore, settings: ClusterSettings, now: float) -> None:
    """Nodes that are there before any instance; those that exist stay."""
    for number in range(settings.fixed_nodes):
        try:
            store.create("nodes", fixed_node(number, settings.aws_region, now, rfc3339(now)))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise


def _say_ready() -> None:
    Path(os.environ["KUBELETS_READY_FILE"]).touch()


async def run(settings: ClusterSettings, kubeconfig: Path) -> None:
    """Until cancelled."""
    clock, endpoint = SystemClock(), settings.aws_endpoint_url or ""
    remote = remote_store(kubeconfig)
    kube = await Kube.connect(
        str(kubeconfig), clock=clock, random=random.Random(), user_agent="local-kubelets"
    )
    informers: Any = RemoteInformers(remote, kube)
    store = cast(Store, remote)
    pods = KeyIndex(store, cast(Informers, informers), "pods", node_of)
    times = BootTimes(
        settings.boot_seconds, settings.ready_seconds, settings.node_monitor_grace_seconds
    )
    recorder = cast(EventRecorder, NoEvents())
    fleet = Fleet(store, recorder, clock, settings.cluster_name, times)
    pod_times = PodTimes(settings.pod_start_seconds, settings.pod_stop_seconds)
    runner = PodRunner(store, fleet, pods, clock, pod_times)
    runner.register(informers)
    create_fixed_nodes(remote, settings, clock.now())
    _say_ready()
    async with asyncio.TaskGroup() as tasks, InstanceClient(endpoint) as client:
        tasks.create_task(informers.run())
        tasks.create_task(supervise("pods", runner.run))
        tasks.create_task(
            supervise("kubelets", lambda: fleet.run(client, settings.kubelet_poll_seconds))
        )
        await asyncio.Event().wait()


if __name__ == "__main__":
    own = ClusterSettings()
    configure(own.log_level)
    asyncio.run(run(own, Path(os.environ["KUBECONFIG"])))
