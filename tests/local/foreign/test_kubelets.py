"""The kubelets on an API server of others, over HTTP: nodes join, pods run, Leases are renewed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from local.cluster.kubelet.instances import Instance
from local.cluster.settings import ClusterSettings
from local.foreign.heartbeats import NAMESPACE as LEASES_NAMESPACE
from local.foreign.kubelets import Program, assemble
from local.foreign.objects import LABEL
from shared.kube.resources import LEASES, NODES, PODS
from tests.support.cluster.fixture import Cluster, write_kubeconfig
from tests.support.network.fault_proxy import FaultProxy
from tests.support.waiting import wait_until

NAME = "ip-10-0-0-7.us-west-2.compute.internal"
SETTINGS = ClusterSettings(boot_seconds=0, ready_seconds=0, pod_start_seconds=0)
ONE = {
    "i-1": Instance(
        instance_id="i-1",
        instance_type="m5.large",
        zone="us-west-2a",
        region="us-west-2",
        state="running",
        launched_at=0.0,
        private_dns_name=NAME,
        tags={"kubernetes.io/cluster/dovetail-local": "owned"},
        vcpus=2,
        memory_mib=8192,
        max_pods=29,
    )
}


@contextlib.asynccontextmanager
async def running(cluster: Cluster, kubeconfig: Any = None) -> AsyncIterator[Program]:
    """The program without its polls of the instances, which a test calls itself."""
    program = assemble(SETTINGS, kubeconfig or cluster.kubeconfig, cluster.kube, "me")
    tasks = [
        asyncio.create_task(part.run())
        for part in (program.informers, program.runner, program.heartbeats)
    ]
    await program.informers.listed.wait()
    try:
        yield program
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        program.store.close()


async def joined(cluster: Cluster, program: Program) -> dict[str, Any]:
    """The ready node; a poll may come before the watch events it depends on."""

    async def ready() -> dict[str, Any] | None:
        program.fleet.observe(ONE)
        node = await cluster.kube.get(NODES, NAME)
        states = {c["type"]: c["status"] for c in node["status"]["conditions"]}
        return node if states["Ready"] == "True" else None

    found: dict[str, Any] | None = await wait_until(ready, "the node is ready")
    assert found is not None
    return found


async def runs(cluster: Cluster, name: str) -> None:
    """Wait until a pod that is bound to the node runs."""
    spec = {"nodeName": NAME, "containers": [{"name": "a", "image": "b"}]}
    await cluster.kube.create(PODS, {"metadata": {"name": name}, "spec": spec}, cluster.namespace)

    async def running_now() -> bool:
        pod = await cluster.kube.get(PODS, name, cluster.namespace)
        return (pod.get("status") or {}).get("phase") == "Running"

    await wait_until(running_now, f"{name} runs")


async def test_an_instance_becomes_a_marked_node_whose_pods_run(cluster: Cluster) -> None:
    async with running(cluster) as program:
        node = await joined(cluster, program)
        assert node["metadata"]["labels"][LABEL] == "me"
        assert "taints" not in node["spec"] or not node["spec"]["taints"]
        await runs(cluster, "first")


async def test_kubelets_that_start_again_take_their_nodes_over(cluster: Cluster) -> None:
    async with running(cluster) as program:
        before = await joined(cluster, program)
    async with running(cluster) as program:
        after = await joined(cluster, program)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        await runs(cluster, "later")


async def test_a_node_has_a_lease_of_its_own_that_is_renewed(cluster: Cluster) -> None:
    """Without renewal a control plane declares the node dead."""
    async with running(cluster) as program:
        node = await joined(cluster, program)

        async def lease() -> dict[str, Any] | None:
            await program.heartbeats.renew_all()
            found = (await cluster.kube.list(LEASES, LEASES_NAMESPACE)).items
            return found[0] if found else None

        first = await wait_until(lease, "a Lease")
        assert first["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        assert first["metadata"]["labels"] == {LABEL: "me"}

        async def renewed() -> bool:
            now = await lease()
            return now is not None and bool(now["spec"]["renewTime"] > first["spec"]["renewTime"])

        await wait_until(renewed, "the Lease is renewed")


async def test_a_node_that_could_not_be_written_is_written_at_the_next_poll(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with FaultProxy(urlsplit(cluster.url).port or 0) as proxy:
        proxied = write_kubeconfig(tmp_path / "proxied", f"http://127.0.0.1:{proxy.port}")
        async with running(cluster, proxied) as program:
            proxy.go_away()
            await asyncio.to_thread(program.fleet.observe, ONE)
            proxy.come_back()
            await asyncio.to_thread(program.fleet.observe, ONE)
            assert (await cluster.kube.get(NODES, NAME))["metadata"]["labels"][LABEL] == "me"
