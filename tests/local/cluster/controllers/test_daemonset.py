"""DaemonSets: one pod per eligible node."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.local_cluster import LocalCluster, control_plane, pod_template
from tests.support.waiting import wait_until


def create(cluster: LocalCluster, spec: dict[str, Any] | None = None) -> None:
    body = {
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": pod_template({"app": "agent"}, "10m", spec),
        },
    }
    cluster.store.create("daemonsets", body, group="apps", namespace="default")


def nodes_with_agent(cluster: LocalCluster) -> list[str]:
    return sorted(p["spec"]["nodeName"] for p in cluster.pods(phase="Running"))


async def test_every_node_gets_one_pod_also_later_and_when_cordoned() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        create(cluster)
        await wait_until(lambda: nodes_with_agent(cluster) == ["n1"], "n1 has its pod")
        cluster.node("n2")
        cluster.store.patch("nodes", "n2", {"spec": {"unschedulable": True}})
        await wait_until(lambda: nodes_with_agent(cluster) == ["n1", "n2"], "n2 has its pod")
        pod = cluster.pods()[0]
        required = pod["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        fields = required["nodeSelectorTerms"][0]["matchFields"]
        assert fields[0]["key"] == "metadata.name"


async def test_node_selector_and_taints_keep_it_off_nodes() -> None:
    async with control_plane() as cluster:
        cluster.node("right", labels={"role": "edge"})
        cluster.node("wrong")
        taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
        cluster.node("tainted", labels={"role": "edge"}, taints=[taint])
        create(cluster, {"nodeSelector": {"role": "edge"}})
        await wait_until(lambda: nodes_with_agent(cluster) == ["right"], "only right has a pod")
        found = cluster.store.get("daemonsets", "agent", group="apps", namespace="default")
        assert found["status"]["desiredNumberScheduled"] == 1
        assert len(cluster.pods()) == 1


async def test_a_fresh_cluster_runs_aws_node_and_kube_proxy_on_its_fixed_node() -> None:
    async with control_plane(fixed_nodes=1, addons="vpc-cni,kube-proxy") as cluster:

        def running() -> bool:
            pods = cluster.store.list("pods", namespace="kube-system")
            return [p["status"]["phase"] for p in pods] == ["Running", "Running"]

        await wait_until(running, "both run")
        node = cluster.store.list("nodes")[0]
        assert node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == "ng-v1"
        for pod in cluster.store.list("pods", namespace="kube-system"):
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            expected = {"aws-node": {"cpu": "25m"}, "kube-proxy": {"cpu": "100m"}}
            assert requests == expected[pod["spec"]["containers"][0]["name"]]
            assert pod["spec"]["priority"] == 2_000_001_000


async def test_outdated_pods_are_replaced() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.node("n2")
        create(cluster)
        await wait_until(lambda: len(nodes_with_agent(cluster)) == 2, "both nodes have a pod")
        before = {pod["metadata"]["uid"] for pod in cluster.pods()}
        template = pod_template({"app": "agent"}, "20m")
        body = {"spec": {"template": template}}
        cluster.store.patch("daemonsets", "agent", body, group="apps", namespace="default")

        def replaced() -> bool:
            pods = cluster.pods(phase="Running")
            new = [pod for pod in pods if pod["metadata"]["uid"] not in before]
            return len(new) == len(pods) == 2

        await wait_until(replaced, "both pods are new")
        found = cluster.store.get("daemonsets", "agent", group="apps", namespace="default")
        assert found["metadata"]["generation"] == 2
