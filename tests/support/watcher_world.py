"""A whole watcher in this process: on a real Redis, and on an embedded API server behind a network that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from prometheus_client.samples import Sample

from services.watcher.conversion import Kind
from services.watcher.optional_kinds import kinds
from services.watcher.service import build
from shared.concurrency.clock import SystemClock
from shared.domain.feature_gates import FeatureGates
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.transport.connection import Timeouts
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror import MirrorReader
from shared.runtime.environment import Environment
from shared.runtime.live_settings import LiveSettings
from shared.runtime.services import Service, supervise
from shared.settings import WatcherSettings, read
from tests.support.cluster import our_kinds
from tests.support.cluster.fixture import connect, write_kubeconfig
from tests.support.network.fault_proxy import FaultProxy
from tests.support.waiting import wait_until

Json = dict[str, Any]
TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "app"}]},
}
WORKLOAD = {
    "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE, "replicas": 0}
}
OURS = {kind.kind: kind.spec for kind in our_kinds.KINDS}
DEVICES = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
}
EVERY_GATE = FeatureGates(
    node_overlay=True,
    capacity_buffer=True,
    provisioning_request=True,
    pod_group=True,
    workload=True,
    vertical_pod_autoscaler=True,
)
KINDS = kinds(EVERY_GATE, devices=True)
"""All, as the watcher of these tests reads them."""
BODIES: Mapping[str, Json] = {
    "Pod": {"spec": {"containers": [{"name": "main", "image": "app"}]}},
    "Node": {"spec": {"providerID": "aws:///us-west-2a/i-1"}},
    "DaemonSet": {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}},
    "PersistentVolumeClaim": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "gp3",
        }
    },
    "PersistentVolume": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
        }
    },
    "StorageClass": {"provisioner": "ebs.csi.aws.com"},
    "CSINode": {"spec": {"drivers": []}},
    "PodDisruptionBudget": {
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    },
    "Namespace": {},
    "PodTemplate": {"template": TEMPLATE},
    "Deployment": WORKLOAD,
    "ReplicaSet": WORKLOAD,
    "StatefulSet": WORKLOAD,
    "ProvisioningRequest": {
        "spec": {
            "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
            "podSets": [{"count": 2, "podTemplateRef": {"name": "web"}}],
        }
    },
    "DeviceClass": {"spec": {}},
    "DeviceTemplate": {
        "spec": {"requirements": [], "drivers": [{"driver": "gpu.nvidia.com", "devices": []}]}
    },
    "ResourceSlice": {
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "a",
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        }
    },
    "ResourceClaim": {"spec": DEVICES},
    "ResourceClaimTemplate": {"spec": {"spec": DEVICES}},
    "PodGroup": {"spec": {"minMember": 2, "schedulingPolicy": {"gang": {"minCount": 2}}}},
    "Workload": {"spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 2}}}]}},
    "VerticalPodAutoscaler": {
        "spec": {"targetRef": {"kind": "Deployment", "name": "web"}},
        "status": {"recommendation": {"containerRecommendations": []}},
    },
    "CapacityBuffer": {"spec": {"podTemplateRef": {"name": "web"}, "replicas": 2}},
    **{kind: {"spec": spec} for kind, spec in OURS.items()},
}
"""By kind: what makes a small good object."""


@dataclass
class World:
    """``kube`` reaches the API server whatever happens to ``network``, the watcher's only way to it."""

    kube: Kube
    network: FaultProxy
    service: Service
    metrics: Metrics
    reader: MirrorReader

    async def create(self, kind: Kind, name: str, **labels: str) -> None:
        """A small object, in the namespace ``default`` if it has one."""
        namespace = "default" if kind.resource.namespaced else None
        metadata = {"name": name, "labels": {"app": "a", **labels}}
        body = {"metadata": metadata, **BODIES[kind.resource.kind]}
        await self.kube.create(kind.resource, body, namespace)

    async def change(self, kind: Kind, name: str, value: str) -> None:
        """Set one label."""
        namespace = "default" if kind.resource.namespaced else None
        body = {"metadata": {"labels": {"changed": value}}}
        await self.kube.patch(kind.resource, name, body, namespace)

    async def delete(self, kind: Kind, name: str) -> None:
        """At once and for good."""
        namespace = "default" if kind.resource.namespaced else None
        await self.kube.delete(kind.resource, name, namespace, grace_seconds=0)
        if kind.resource.kind == "Namespace":
            left = await self.kube.get(kind.resource, name)
            left["spec"] = {"finalizers": []}
            await self.kube.replace(kind.resource, left, subresource="finalize")

    async def cluster(self) -> dict[str, dict[str, bytes]]:
        """Mirror kind -> key -> record, as the API server's objects give them."""
        found: dict[str, dict[str, bytes]] = {kind.name: {} for kind in KINDS}
        for kind in KINDS:
            for raw in (await self.kube.list(kind.resource)).items:
                record = kind.convert(raw).record
                if record is not None:
                    found[kind.name][kind.key(raw)] = msgspec.json.encode(record)
        return found

    def mirror(self) -> dict[str, dict[str, bytes]]:
        """The same, as the mirror's readers have it."""
        return {kind.name: dict(self.reader.kinds.get(kind.name, {})) for kind in KINDS}

    async def in_step(self) -> None:
        """Wait until the mirror shows the cluster."""

        async def equal() -> bool:
            return self.reader.complete and self.mirror() == await self.cluster()

        await wait_until(equal, "the mirror shows the cluster", show=self.reasons, every=0.1)

    def reasons(self) -> list[str]:
        """Why the watcher is not ready."""
        return self.service.unready(SystemClock().monotonic())

    def crashes(self) -> float:
        """How many times a loop ended with an error."""
        return sum(row.value for row in self._samples("dovetail_loop_failures_total"))

    def differences(self) -> dict[tuple[str, str], float]:
        """(Kubernetes kind, direction) -> how many objects a fresh list showed to be wrong."""
        rows = self._samples("dovetail_watch_differences_total")
        return {(row.labels["kind"], row.labels["direction"]): row.value for row in rows}

    def _samples(self, name: str) -> list[Sample]:
        found = self.metrics.registry.collect()
        return [row for one in found for row in one.samples if row.name == name]


@contextlib.asynccontextmanager
async def watching(
    url: str,
    bus: Bus,
    redis_url: str,
    folder: Path,
    *,
    watch_silence: float = 20.0,
    **settings: Any,
) -> AsyncIterator[World]:
    """A watcher of the API server at ``url`` that has written its first mirror, and a reader of it."""
    clock, chance, metrics = SystemClock(), random.Random(1), Metrics("watcher")
    kube = await connect(write_kubeconfig(folder / "direct", url))
    async with (
        contextlib.AsyncExitStack() as stack,
        FaultProxy(urlsplit(url).port or 0, loss=0.0, seed=1) as network,
    ):
        config = write_kubeconfig(folder / "watcher", f"http://127.0.0.1:{network.port}")
        own = await connect(
            config, Timeouts(connect=2, read=5, total=10, watch_silence=watch_silence)
        )
        gates = {
            "feature_gates": "NodeOverlay=true,CapacityBuffer=true,ProvisioningRequest=true,"
            "PodGroup=true,Workload=true,VerticalPodAutoscaler=true",
            "ignore_dra_requests": False,
        }  # with it every kind is watched
        chosen = {"cluster_name": "test", "redis_url": redis_url, **gates, **settings}
        read_settings = read(WatcherSettings, disable_leader_election=True, **chosen)
        recorder = Recorder(own, clock=clock, random=chance)
        live = LiveSettings(WatcherSettings, own, recorder, namespace="karpenter")
        environment = Environment(
            read_settings, live, clock, chance, metrics, own, bus, recorder, "test", stack
        )
        service = await build(environment)
        reader = MirrorReader(redis_url, bus.prefix, clock=clock, block_milliseconds=20)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for loop in service.loops:
                group.create_task(supervise(loop, stop, metrics, clock))
            group.create_task(reader.run(stop))
            try:
                await wait_until(lambda: reader.complete, "the first mirror")
                yield World(kube, network, service, metrics, reader)
            finally:
                stop.set()
        await own.close()
        await kube.close()
