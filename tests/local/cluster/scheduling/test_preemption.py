"""Pods of higher priority take the place of others, as kube-scheduler's default preemption lets them."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.local_cluster import LocalCluster, condition, control_plane
from tests.support.waiting import wait_until


def priority(cluster: LocalCluster, name: str, value: int, **more: Any) -> None:
    body = {"metadata": {"name": name}, "value": value, **more}
    cluster.store.create("priorityclasses", body, group="scheduling.k8s.io")


def prepared(cluster: LocalCluster) -> None:
    priority(cluster, "low", -10)
    priority(cluster, "mid", 10)
    priority(cluster, "high", 100)
    priority(cluster, "patient", 100, preemptionPolicy="Never")


def classed(name: str) -> dict[str, str]:
    return {"priorityClassName": name}


async def gone(cluster: LocalCluster, name: str) -> None:
    await wait_until(
        lambda: cluster.store.find("pods", name, namespace="default") is None, f"{name} is gone"
    )


async def test_room_kept_by_pods_of_low_priority_is_there_at_once() -> None:
    """The pattern of over-provisioning: the placeholders wait again, the workload runs."""
    async with control_plane() as cluster:
        prepared(cluster)
        cluster.node("n1", cpu="4")
        cluster.deployment("placeholder", 1, cpu="3", pod_spec=classed("low"))
        await cluster.running(1)
        (before,) = cluster.pods("app=placeholder")
        cluster.pod("work", cpu="3", spec=classed("high"))
        assert await cluster.bound("work") == "n1"
        await gone(cluster, before["metadata"]["name"])

        def waits_again() -> bool:
            (pod,) = cluster.pods("app=placeholder") or [{}]
            return condition(pod).get("reason") == "Unschedulable" if pod else False

        await wait_until(waits_again, "the placeholder waits for another node")
        events = cluster.store.list("events", namespace="default")
        shown = {event["reason"]: event["message"] for event in events}
        uid = cluster.find_pod("work")["metadata"]["uid"]
        assert shown["Preempted"] == f"Preempted by pod {uid} on node n1"


async def test_while_its_victims_leave_a_pod_is_nominated_and_waits() -> None:
    async with control_plane() as cluster:
        prepared(cluster)
        cluster.node("n1", cpu="4", kubelet=False)
        cluster.pod("victim", cpu="3", spec=classed("low"))
        await cluster.bound("victim")
        cluster.pod("work", cpu="3", spec=classed("high"))
        await cluster.refused(
            "work", "preemption: not eligible due to a terminating pod on the nominated node."
        )
        assert cluster.find_pod("work")["status"]["nominatedNodeName"] == "n1"
        victim = cluster.find_pod("victim")
        assert victim["metadata"]["deletionTimestamp"]
        assert condition(victim, "DisruptionTarget")["reason"] == "PreemptionByScheduler"
        cluster.pod("thief", cpu="2", spec=classed("mid"))
        await cluster.refused("thief")
        cluster.store.delete("pods", "victim", namespace="default", grace_seconds=0)
        assert await cluster.bound("work") == "n1"
        assert cluster.node_of("thief") is None


async def test_no_preemption_among_equals_nor_by_policy_never_nor_without_effect() -> None:
    async with control_plane() as cluster:
        prepared(cluster)
        cluster.node("n1", cpu="4")
        cluster.pod("there", cpu="3", spec=classed("mid"))
        await cluster.bound("there")
        cluster.pod("equal", cpu="3", spec=classed("mid"))
        await cluster.refused("equal", "No preemption victims found for incoming pod")
        cluster.pod("patient", cpu="3", spec=classed("patient"))
        await cluster.refused("patient")
        cluster.pod("too-big", cpu="5", spec=classed("high"))
        await cluster.refused("too-big", "Preemption is not helpful for scheduling")
        tainted = {"nodeSelector": {"disk": "ssd"}, **classed("high")}
        cluster.pod("elsewhere", cpu="3", spec=tainted)
        await cluster.refused("elsewhere", "Preemption is not helpful for scheduling")
        assert not cluster.find_pod("there")["metadata"].get("deletionTimestamp")


async def test_only_as_many_leave_as_must_and_the_least_important() -> None:
    async with control_plane() as cluster:
        prepared(cluster)
        cluster.node("n1", cpu="4")
        for name, class_name in (("a", "mid"), ("b", "low"), ("c", "mid"), ("d", "low")):
            cluster.pod(name, cpu="900m", spec=classed(class_name))
            await cluster.bound(name)
        cluster.pod("work", cpu="1", spec=classed("high"))
        assert await cluster.bound("work") == "n1"
        left = {pod["metadata"]["name"] for pod in cluster.pods()}
        assert left in ({"a", "b", "c", "work"}, {"a", "c", "d", "work"})


async def test_the_node_with_the_least_important_victims_is_chosen() -> None:
    async with control_plane() as cluster:
        prepared(cluster)
        for name, class_name in (("n1", "mid"), ("n2", "low"), ("n3", "mid")):
            cluster.node(name, cpu="2")
            on_it = {"nodeSelector": {"kubernetes.io/hostname": name}, **classed(class_name)}
            cluster.pod(f"on-{name}", cpu="1500m", spec=on_it)
            await cluster.bound(f"on-{name}")
        cluster.pod("work", cpu="1500m", spec=classed("high"))
        assert await cluster.bound("work") == "n2"
        assert {pod["metadata"]["name"] for pod in cluster.pods()} == {"on-n1", "on-n3", "work"}


async def test_pods_that_a_disruption_budget_protects_go_last() -> None:
    async with control_plane() as cluster:
        prepared(cluster)
        for name in ("n1", "n2"):
            cluster.node(name, cpu="2")
            on_it = {"nodeSelector": {"kubernetes.io/hostname": name}, **classed("low")}
            cluster.pod(f"on-{name}", cpu="1500m", spec=on_it, labels={"node": name})
        await cluster.running(2)
        selector = {"matchLabels": {"node": "n1"}}
        budget = {"metadata": {"name": "one"}, "spec": {"minAvailable": 1, "selector": selector}}
        cluster.store.create("poddisruptionbudgets", budget, group="policy", namespace="default")
        cluster.pod("work", cpu="1500m", spec=classed("high"))
        assert await cluster.bound("work") == "n2"
        cluster.pod("more", cpu="1500m", spec=classed("high"))
        assert await cluster.bound("more") == "n1"


async def test_a_whole_group_preempts_one_pod_after_another() -> None:
    async with control_plane() as cluster:
        prepared(cluster)
        for number in range(5):
            cluster.node(f"n{number}", cpu="2")
        cluster.deployment("placeholder", 5, cpu="1500m", pod_spec=classed("low"))
        await cluster.running(5)
        cluster.deployment("work", 5, cpu="1500m", pod_spec=classed("high"))
        await cluster.running(5, "app=work")
        nodes = {pod["spec"]["nodeName"] for pod in cluster.pods("app=work")}
        assert len(nodes) == 5
