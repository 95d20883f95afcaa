"""``python -m local.foreign.kubelets``: the local kubelets on an existing API server.

Instances of the AWS emulator become nodes, and pods bound to them run, exactly as in the embedded cluster. Configured
by ``KUBECONFIG``, ``KUBELETS_READY_FILE``, ``STACK_ID`` and the settings of ``local.cluster``. A write that the server
refuses is logged and repeated; after a restart the kubelets take over their existing nodes.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.informers import Informers, KeyIndex
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.control_plane.running import node_of
from local.cluster.control_plane.supervision import supervise
from local.cluster.kubelet.fleet import Fleet
from local.cluster.kubelet.instances import InstanceClient
from local.cluster.kubelet.node_objects import fixed_node
from local.cluster.kubelet.pods import PodRunner
from local.cluster.kubelet.pods import kubelets as local_kubelets
from local.cluster.settings import ClusterSettings
from local.cluster.storage.store import Store
from local.foreign.heartbeats import Heartbeats
from local.foreign.kubeconfig import read_context
from local.foreign.objects import LABEL
from local.foreign.remote_store import RemoteInformers, RemoteStore
from shared.concurrency.clock import SystemClock, rfc3339
from shared.concurrency.tasks import TaskGroup
from shared.kube.client import Kube
from shared.log import configure


class NoEvents:
    """Discards Events: the kubelets write none on an existing cluster."""

    def record(self, *_event: object, **_more: object) -> None:
        return None


@dataclass(frozen=True)
class Program:
    """The parts of the program."""

    fleet: Fleet
    runner: PodRunner
    informers: RemoteInformers
    heartbeats: Heartbeats
    store: RemoteStore


def assemble(settings: ClusterSettings, kubeconfig: Path, kube: Kube, stack: str) -> Program:
    """All parts, not yet started. Raises ConfigurationError."""
    clock, labels = SystemClock(), {LABEL: stack} if stack else {}
    remote = RemoteStore(read_context(kubeconfig), labels)
    remote_informers = RemoteInformers(remote, kube)
    # These classes have only the methods that kubelets call.
    store, informers = cast(Store, remote), cast(Informers, cast(Any, remote_informers))
    pods = KeyIndex(store, informers, "pods", node_of)
    recorder = cast(EventRecorder, NoEvents())
    fleet, runner = local_kubelets(store, pods, recorder, clock, settings)
    runner.register(informers)
    heartbeats = Heartbeats(remote, kube, fleet, clock, labels)
    return Program(fleet, runner, remote_informers, heartbeats, remote)


def create_fixed_nodes(store: RemoteStore, settings: ClusterSettings, now: float) -> None:
    """Create the fixed nodes when the cluster has no node, so that pods can run before the first instance exists."""
    if store.objects["nodes"]:
        return
    for number in range(settings.fixed_nodes):
        try:
            store.create("nodes", fixed_node(number, settings.aws_region, now, rfc3339(now)))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise


async def run(
    settings: ClusterSettings, kubeconfig: Path, stack: str, ready: Callable[[], None]
) -> None:
    """Run until cancelled; ``ready`` is called when the kubelets work."""
    kube = await Kube.connect(
        str(kubeconfig),
        clock=SystemClock(),
        random=random.Random(),
        user_agent="dovetail-local-kubelets",
    )
    program = assemble(settings, kubeconfig, kube, stack)
    async with TaskGroup() as tasks, InstanceClient(settings.aws_endpoint_url or "") as aws:
        tasks.create_task(program.informers.run())
        await program.informers.listed.wait()
        create_fixed_nodes(program.store, settings, SystemClock().now())
        tasks.create_task(supervise("pods", program.runner.run))
        tasks.create_task(supervise("heartbeats", program.heartbeats.run))
        tasks.create_task(
            supervise("kubelets", lambda: program.fleet.run(aws, settings.kubelet_poll_seconds))
        )
        ready()
        await asyncio.Event().wait()


if __name__ == "__main__":
    own = ClusterSettings()
    configure(own.log_level)
    asyncio.run(
        run(
            own,
            Path(os.environ["KUBECONFIG"]),
            os.environ["STACK_ID"],
            Path(os.environ["KUBELETS_READY_FILE"]).touch,
        )
    )
