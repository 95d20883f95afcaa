"""Kubelets: instances of the emulator's control endpoint join as nodes and leave as real ones do."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.kubelet.fleet import BootTimes, Fleet
from local.cluster.kubelet.instances import Instance
from local.cluster.kubelet.node_objects import NOT_READY_TAINT
from local.cluster.storage.store import Store
from tests.support.clock.fake import FakeClock
from tests.support.cluster.local_cluster import LocalCluster, condition, control_plane
from tests.support.waiting import wait_until

BOOTSTRAP = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash -xe
/etc/eks/bootstrap.sh 'dovetail-local' --apiserver-endpoint 'http://x' \\
--kubelet-extra-args '--node-labels="karpenter.sh/provisioner-name=default,team=a" \
--register-with-taints="dedicated=a:NoSchedule"'
--//--
"""
NAME = "ip-10-0-0-7.us-west-2.compute.internal"


class Emulator:
    """The AWS emulator's control endpoint alone."""

    def __init__(self) -> None:
        self.instances: dict[str, dict[str, Any]] = {}
        self.broken = False

    def launch(self, instance_id: str = "i-1", **changes: Any) -> None:
        """An m5.large of this cluster."""
        self.instances[instance_id] = {
            "instanceId": instance_id,
            "instanceType": "m5.large",
            "zone": "us-west-2a",
            "zoneId": "usw2-az1",
            "region": "us-west-2",
            "state": "running",
            "launchedAt": time.time(),
            "privateDnsName": NAME,
            "privateIp": "10.0.0.7",
            "architecture": "x86_64",
            "imageId": "ami-1",
            "userData": base64.b64encode(BOOTSTRAP.encode()).decode(),
            "tags": {"kubernetes.io/cluster/dovetail-local": "owned"},
            "lifecycle": "spot",
            "vcpus": 2,
            "memoryMiB": 8192,
            "maxPods": 29,
            "gpus": [],
            **changes,
        }

    async def answer(self, _request: web.Request) -> web.Response:
        """GET /_dovetail/instances."""
        if self.broken:
            return web.Response(status=503)
        return web.json_response({"instances": list(self.instances.values())})


@contextlib.asynccontextmanager
async def cluster_on_aws(**settings: Any) -> AsyncIterator[tuple[Emulator, LocalCluster]]:
    emulator = Emulator()
    app = web.Application()
    app.router.add_get("/_dovetail/instances", emulator.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with control_plane(aws_endpoint_url=url, **settings) as cluster:
            yield emulator, cluster
    finally:
        await runner.cleanup()


def ready(cluster: LocalCluster) -> str:
    return str(condition(cluster.store.get("nodes", NAME), "Ready")["status"])


async def joined(cluster: LocalCluster) -> dict[str, Any]:
    await wait_until(
        lambda: cluster.store.find("nodes", NAME) and ready(cluster) == "True", "the node is ready"
    )
    return cluster.store.get("nodes", NAME)


async def test_an_instance_joins_with_labels_and_taints_of_its_user_data() -> None:
    async with cluster_on_aws() as (emulator, cluster):
        emulator.launch()
        node = await joined(cluster)
        assert node["spec"]["providerID"] == "aws:///us-west-2a/i-1"
        assert node["metadata"]["labels"] == {
            "karpenter.sh/provisioner-name": "default",
            "team": "a",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": NAME,
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/zone": "us-west-2a",
            "topology.kubernetes.io/region": "us-west-2",
            "topology.k8s.aws/zone-id": "usw2-az1",
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/instance-type": "m5.large",
            "failure-domain.beta.kubernetes.io/zone": "us-west-2a",
            "failure-domain.beta.kubernetes.io/region": "us-west-2",
        }
        await wait_until(
            lambda: (
                cluster.store.get("nodes", NAME)["spec"]["taints"]
                == [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}]
            ),
            "only the taint of the user data is left",
        )
        assert node["status"]["capacity"]["memory"] == "7577Mi"
        assert node["status"]["allocatable"]["memory"] == f"{7577 - 11 * 29 - 255 - 100}Mi"
        assert node["status"]["allocatable"]["cpu"] == "1930m"
        assert node["status"]["allocatable"]["pods"] == "29"


async def test_a_node_is_tainted_and_takes_no_pods_before_it_is_ready() -> None:
    async def hold() -> None:
        async for _ in cluster.store.subscribe("nodes").events():
            emulator.broken = True  # a node that was not seen again stays NotReady
            return

    async with cluster_on_aws(ready_seconds=0.001) as (emulator, cluster):
        holding = asyncio.create_task(hold())
        emulator.launch(userData=None)
        await holding
        assert ready(cluster) == "False"
        cluster.pod("p")
        await cluster.refused("p", "untolerated taint {node.kubernetes.io/not-ready: }")
        emulator.broken = False
        assert await cluster.bound("p") == NAME


async def test_pods_of_a_booting_node_start_when_it_is_ready_and_daemons_come_first() -> None:
    """ACC-22: bound while the node is NotReady, ContainerCreating once it is ready, then Running. What does not
    tolerate a booting node is bound later: daemons start first."""
    history: list[dict[str, Any]] = []

    def come_to(name: str, step: str) -> int | None:
        """The revision of a step; None before it."""
        taken = (int(one["metadata"]["resourceVersion"]) for one in history if _is(one, name, step))
        return min(taken, default=None)

    async def note(kind: str) -> None:
        async for change, changed, _ in cluster.store.subscribe(kind).events():
            history.append(changed)
            emulator.broken |= (kind, change) == ("nodes", "ADDED")  # it stays NotReady for now

    names = ("aws-node", "kube-proxy", "tolerant")
    async with cluster_on_aws(ready_seconds=0.001, addons="vpc-cni,kube-proxy") as (
        emulator,
        cluster,
    ):
        noting = [asyncio.create_task(note(kind)) for kind in ("pods", "nodes")]
        cluster.pod("tolerant", spec={"tolerations": [{"operator": "Exists"}]})
        cluster.pod("plain")
        emulator.launch(userData=None)
        await wait_until(lambda: all(come_to(name, "Bound") for name in names), "daemons are bound")
        emulator.broken = False
        await wait_until(
            lambda: all(come_to(name, "Running") for name in (*names, "plain")), "all run"
        )
        for task in noting:
            task.cancel()
    ready_at = come_to(NAME, "Ready") or 0
    for name in names:
        bound, creating, running = (
            come_to(name, step) or 0 for step in ("Bound", "ContainerCreating", "Running")
        )
        assert 0 < bound < ready_at < creating < running, name
    assert ready_at < (come_to("plain", "Bound") or 0)


def _is(changed: dict[str, Any], name: str, step: str) -> bool:
    """Is it this node or pod (a daemon pod by its daemon set's label), and has it come so far?"""
    metadata, status = changed["metadata"], changed.get("status") or {}
    if name not in (metadata["name"], (metadata.get("labels") or {}).get("k8s-app")):
        return False
    waiting = [one["state"].get("waiting") or {} for one in status.get("containerStatuses") or ()]
    return {
        "Ready": condition(changed, "Ready").get("status") == "True",
        "Bound": bool(changed["spec"].get("nodeName")),
        "ContainerCreating": [one.get("reason") for one in waiting] == ["ContainerCreating"],
        "Running": status.get("phase") == "Running",
    }[step]


async def test_only_running_instances_of_this_cluster_join_after_their_boot_time() -> None:
    async with cluster_on_aws(boot_seconds=0.3) as (emulator, cluster):
        emulator.launch("i-other", tags={}, privateDnsName="other")
        emulator.launch("i-pending", state="pending", privateDnsName="pending")
        emulator.launch("i-1")
        launched = time.time()
        await joined(cluster)
        assert time.time() - launched >= 0.3
        assert [n["metadata"]["name"] for n in cluster.store.list("nodes")] == [NAME]


async def test_gpus_and_arm_machines() -> None:
    async with cluster_on_aws() as (emulator, cluster):
        gpus = [{"name": "T4", "manufacturer": "NVIDIA", "count": 4, "memoryMiB": 16384}]
        emulator.launch(architecture="arm64", gpus=gpus)
        node = await joined(cluster)
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
        assert node["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
        assert node["status"]["capacity"]["memory"] == "7518Mi"


async def test_gpus_that_pods_share_by_time() -> None:
    settings = """
    [settings.kubernetes]
    cluster-name = "dovetail-local"
    [settings.kubelet-device-plugins.nvidia]
    device-sharing-strategy = "time-slicing"
    [settings.kubelet-device-plugins.nvidia.time-slicing]
    replicas = 4
    rename-by-default = false
    """
    async with cluster_on_aws() as (emulator, cluster):
        gpus = [{"name": "T4", "manufacturer": "NVIDIA", "count": 1, "memoryMiB": 16384}]
        emulator.launch(gpus=gpus, userData=base64.b64encode(settings.encode()).decode())
        node = await joined(cluster)
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"


async def test_each_new_node_reports_its_volume_limit() -> None:
    def limits() -> dict[str, Any]:
        found = cluster.store.get("csinodes", NAME, group="storage.k8s.io")
        (driver,) = found["spec"]["drivers"]
        return {driver["nodeID"]: driver["allocatable"]["count"]}

    async with cluster_on_aws() as (emulator, cluster):
        emulator.launch()
        node = await joined(cluster)
        assert limits() == {"i-1": 26}
        emulator.instances["i-1"]["state"] = "terminated"
        await wait_until(lambda: not cluster.store.find("nodes", NAME), "the node is gone")
        emulator.launch("i-2", instanceType="i3.large", maxVolumes=38)
        assert (await joined(cluster))["metadata"]["uid"] != node["metadata"]["uid"]
        assert limits() == {"i-2": 38}


async def test_a_terminated_instance_s_node_becomes_unknown_then_goes_with_its_pods() -> None:
    async with cluster_on_aws(node_monitor_grace_seconds=0.2) as (emulator, cluster):
        emulator.launch(userData=None)
        await joined(cluster)
        cluster.pod("p")
        await cluster.running(1)
        statuses: list[str] = []
        subscription = cluster.store.subscribe("nodes")
        emulator.instances["i-1"]["state"] = "terminated"
        async for event_type, node, _old in subscription.events():
            statuses.append(str(condition(node, "Ready")["status"]))
            if event_type == "DELETED":
                break
        assert "Unknown" in statuses
        await wait_until(
            lambda: cluster.store.find("pods", "p", namespace="default") is None, "the pod is gone"
        )


async def test_a_node_with_a_finalizer_is_only_marked_and_gets_the_unreachable_taints() -> None:
    async with cluster_on_aws() as (emulator, cluster):
        emulator.launch(userData=None)
        await joined(cluster)
        body = {"metadata": {"finalizers": ["karpenter.sh/termination"]}}
        cluster.store.patch("nodes", NAME, body)
        del emulator.instances["i-1"]
        await wait_until(
            lambda: cluster.store.get("nodes", NAME)["metadata"].get("deletionTimestamp"),
            "the node is marked",
        )

        def taints() -> set[tuple[str, str]]:
            found = cluster.store.get("nodes", NAME)["spec"]["taints"]
            return {(taint["key"], taint["effect"]) for taint in found}

        key = "node.kubernetes.io/unreachable"
        wanted = {(key, "NoSchedule"), (key, "NoExecute")}
        await wait_until(lambda: taints() == wanted, "the taints are set")
        cluster.store.patch("nodes", NAME, {"metadata": {"finalizers": []}})
        await wait_until(lambda: cluster.store.find("nodes", NAME) is None, "the node is gone")


async def test_an_emulator_that_is_down_ends_no_node() -> None:
    async with cluster_on_aws() as (emulator, cluster):
        emulator.launch(userData=None)
        await joined(cluster)
        emulator.broken = True
        cluster.pod("p")
        await cluster.running(1)
        emulator.broken = False
        emulator.launch("i-2", privateDnsName="ip-2", userData=None)
        await wait_until(lambda: cluster.store.find("nodes", "ip-2"), "polling goes on")
        assert ready(cluster) == "True"


async def test_a_deleted_pod_ends_and_a_pod_on_a_dead_node_does_not() -> None:
    async with control_plane() as cluster:
        cluster.node("alive")
        cluster.node("dead", kubelet=False)
        for name in ("alive", "dead"):
            cluster.pod(f"on-{name}", spec={"nodeSelector": {"kubernetes.io/hostname": name}})
        await wait_until(
            lambda: cluster.find_pod("on-alive")["status"].get("podIP"), "the pod has an address"
        )
        assert await cluster.bound("on-dead") == "dead"
        for name in ("on-alive", "on-dead"):
            cluster.store.delete("pods", name, namespace="default")
        await wait_until(
            lambda: cluster.store.find("pods", "on-alive", namespace="default") is None, "it ended"
        )
        left = cluster.find_pod("on-dead")
        assert left["status"]["phase"] == "Pending"
        assert left["metadata"]["deletionTimestamp"]


class LateReads(Store):
    """Shows nodes as a watch of a real API server may have them: older than they are stored."""

    shown: dict[str, Any] | None = None

    def find(self, plural: str, name: str, **where: Any) -> Any:
        return self.shown or super().find(plural, name, **where)


def late_fleet(clock: FakeClock) -> tuple[LateReads, Fleet]:
    store = LateReads(clock, random.Random(1))
    recorder = EventRecorder(store, clock)
    return store, Fleet(store, recorder, clock, "dovetail-local", BootTimes(0.0, 1.0, 5.0))


async def test_a_node_that_becomes_ready_keeps_no_taint_that_others_removed() -> None:
    """As the autoscaler takes its boot taint off: else no pod that was planned for the node ever runs there."""
    clock = FakeClock()
    store, fleet = late_fleet(clock)
    emulator = Emulator()
    emulator.launch(launchedAt=clock.now())
    instances = {name: Instance.model_validate(one) for name, one in emulator.instances.items()}
    fleet.observe(instances)
    store.shown = store.get("nodes", NAME)
    store.patch("nodes", NAME, {"spec": {"taints": [NOT_READY_TAINT]}})
    clock.advance(2)
    fleet.observe(instances)
    node = store.get("nodes", NAME)
    assert condition(node, "Ready")["status"] == "True"
    assert node["spec"].get("taints", []) == []


class Busy(Store):
    """Refuses the first nodes, as an API server under load."""

    refusals = 2

    def create(self, plural: str, obj: dict[str, Any], **how: Any) -> dict[str, Any]:
        if plural == "nodes" and self.refusals:
            self.refusals -= 1
            raise ApiError(503, "ServiceUnavailable", "try again")
        return super().create(plural, obj, **how)


async def test_an_instance_that_could_not_register_its_node_tries_again() -> None:
    clock, emulator = FakeClock(), Emulator()
    store = Busy(clock, random.Random(1))
    fleet = Fleet(
        store, EventRecorder(store, clock), clock, "dovetail-local", BootTimes(0.0, 1.0, 5.0)
    )
    emulator.launch(launchedAt=clock.now())
    instances = {name: Instance.model_validate(one) for name, one in emulator.instances.items()}
    for _ in range(2):
        fleet.observe(instances)
        assert store.find("nodes", NAME) is None
    fleet.observe(instances)
    assert store.find("nodes", NAME) is not None
