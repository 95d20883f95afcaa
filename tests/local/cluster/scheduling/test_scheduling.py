"""The local scheduler behaves like kube-scheduler where node scaling can tell (Kubernetes 1.32
scheduling docs).
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from local.cluster.storage.snapshots import restore, snapshot_of
from tests.support.cluster.local_cluster import condition, control_plane
from tests.support.waiting import wait_until

GPU_TAINT = {"key": "team", "value": "gpu", "effect": "NoSchedule"}
GPU_TOLERATION = {"key": "team", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


def required_nodes(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def pods_rule(kind: str, key: str, labels: dict[str, str]) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def on_host(name: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


@pytest.mark.slow
async def test_four_hundred_pods_run_within_seconds() -> None:
    async with control_plane() as cluster:
        for number in range(20):
            cluster.node(f"n{number}")
        cluster.deployment("web", 400)
        await cluster.running(400)


async def test_a_pod_that_fits_nowhere_shows_the_reason_and_starts_when_room_appears() -> None:
    async with control_plane() as cluster:
        cluster.node("small", cpu="1")
        cluster.node("tainted", cpu="8", taints=[GPU_TAINT])
        cluster.pod("big", cpu="2")
        message = await cluster.refused("big", "0/2 nodes")
        assert message.startswith(
            "0/2 nodes are available: 1 Insufficient cpu, "
            "1 node(s) had untolerated taint {team: gpu}. preemption: 0/2 nodes are available: "
        )
        assert condition(cluster.find_pod("big"))["reason"] == "Unschedulable"
        events = await wait_until(
            lambda: cluster.store.list("events", namespace="default"), "an event is written"
        )
        assert (events[0]["reason"], events[0]["type"]) == ("FailedScheduling", "Warning")
        cluster.node("large", cpu="4")
        assert await cluster.bound("big") == "large"


async def test_without_nodes_the_message_states_it() -> None:
    async with control_plane() as cluster:
        cluster.pod("alone")
        assert await cluster.refused("alone") == "no nodes available to schedule pods"


async def test_requests_of_running_pods_are_counted_until_they_are_deleted() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", cpu="1")
        cluster.pod("first", cpu="800m")
        await cluster.bound("first")
        cluster.pod("second", cpu="800m")
        await cluster.refused("second")
        cluster.store.delete("pods", "first", namespace="default")
        assert await cluster.bound("second") == "n1"


async def test_a_pod_of_a_restored_backup_takes_its_room_where_it_was_then() -> None:
    """A pod of a StatefulSet has its name again on another node; the backup has the earlier one."""
    async with control_plane() as cluster:
        for name in ("then", "now"):
            cluster.node(name, cpu="1")
        cluster.pod("web", cpu="800m", spec=on_host("then"))
        await cluster.bound("web")
        backup = snapshot_of(cluster.store)
        cluster.store.delete("pods", "web", namespace="default")
        find = cluster.store.find
        await wait_until(lambda: not find("pods", "web", namespace="default"), "the pod is gone")
        cluster.pod("web", cpu="800m", spec=on_host("now"))
        await cluster.bound("web")
        restore(cluster.store, backup)
        cluster.pod("next", cpu="800m")
        assert await cluster.bound("next") == "now"


async def test_the_pod_limit_of_a_node_holds() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", pods="1")
        cluster.pod("a")
        await cluster.bound("a")
        cluster.pod("b")
        await cluster.refused("b", "1 Too many pods")


async def test_a_cordoned_node_gets_no_pods_until_it_is_uncordoned() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.store.patch("nodes", "n1", {"spec": {"unschedulable": True}})
        cluster.pod("waits")
        await cluster.refused("waits", "1 node(s) were unschedulable")
        cluster.store.patch("nodes", "n1", {"spec": {"unschedulable": None}})
        assert await cluster.bound("waits") == "n1"


async def test_a_taint_keeps_out_all_but_those_who_tolerate_it() -> None:
    async with control_plane() as cluster:
        cluster.node("gpu", taints=[GPU_TAINT])
        cluster.pod("plain")
        cluster.pod("tolerant", spec={"tolerations": [GPU_TOLERATION]})
        assert await cluster.bound("tolerant") == "gpu"
        await cluster.refused("plain")


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "size", "operator": "In", "values": ["8"]},
        {"key": "size", "operator": "NotIn", "values": ["2"]},
        {"key": "special", "operator": "Exists"},
        {"key": "plain", "operator": "DoesNotExist"},
        {"key": "size", "operator": "Gt", "values": ["4"]},
        {"key": "rank", "operator": "Lt", "values": ["4"]},
    ],
    ids=lambda expression: expression["operator"],
)
async def test_required_node_affinity_chooses_the_node(expression: dict[str, Any]) -> None:
    async with control_plane() as cluster:
        cluster.node("wrong", labels={"size": "2", "plain": "yes", "rank": "9"})
        cluster.node("right", labels={"size": "8", "special": "", "rank": "1"})
        cluster.pod("p", spec=required_nodes(expression))
        assert await cluster.bound("p") == "right"


async def test_node_selector_and_missing_match() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", labels={"disk": "hdd"})
        cluster.pod("p", spec={"nodeSelector": {"disk": "ssd"}})
        await cluster.refused("p", "1 node(s) didn't match Pod's node affinity/selector")


async def test_hostname_spread_keeps_the_skew() -> None:
    """Seeds' table: hostname spread with a maxSkew."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    async with control_plane() as cluster:
        for number in range(4):
            cluster.node(f"n{number}", cpu="32")
        cluster.deployment("web", 40, pod_spec={"topologySpreadConstraints": [spread]})
        await cluster.running(40)
        per_node = Counter(pod["spec"]["nodeName"] for pod in cluster.pods())
        assert sorted(per_node.values()) == [10, 10, 10, 10]


async def test_spread_refuses_when_one_domain_is_full() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    async with control_plane() as cluster:
        cluster.node("full", cpu="100m")
        cluster.node("free", cpu="32")
        cluster.deployment("web", 5, pod_spec={"topologySpreadConstraints": [spread]})
        reason = "didn't match pod topology spread constraints"
        await wait_until(
            lambda: sum(reason in condition(p).get("message", "") for p in cluster.pods()) == 2,
            "two pods are refused",
        )
        bound = Counter(p["spec"].get("nodeName") for p in cluster.pods())
        assert (bound["full"], bound["free"]) == (1, 2)


async def test_anti_affinity_puts_one_pod_on_each_host_in_both_directions() -> None:
    rule = pods_rule("podAntiAffinity", "kubernetes.io/hostname", {"app": "db"})
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.node("n2")
        for name in ("a", "b", "c"):
            cluster.pod(name, labels={"app": "db"}, spec=rule)
        await wait_until(
            lambda: sum(bool(cluster.node_of(n)) for n in "abc") == 2, "two pods are bound"
        )
        waiting = next(n for n in "abc" if not cluster.node_of(n))
        await cluster.refused(waiting, "anti-affinity rules")
        cluster.pod("shy", labels={"app": "db"})
        await cluster.refused("shy", "existing pods anti-affinity")


async def test_affinity_follows_the_other_pod_into_its_zone() -> None:
    rule = pods_rule("podAffinity", "zone", {"app": "db"})
    async with control_plane() as cluster:
        cluster.node("a1", labels={"zone": "a"})
        cluster.node("b1", labels={"zone": "b"})
        cluster.pod("client", spec=rule)
        await cluster.refused("client", "didn't match pod affinity rules")
        cluster.pod("db", labels={"app": "db"}, spec={"nodeSelector": {"zone": "b"}})
        assert await cluster.bound("client") == "b1"


async def test_the_first_pod_of_a_self_affine_group_may_start() -> None:
    rule = pods_rule("podAffinity", "kubernetes.io/hostname", {"app": "pack"})
    async with control_plane() as cluster:
        cluster.node("n1", cpu="32")
        cluster.node("n2", cpu="32")
        cluster.deployment("pack", 10, pod_spec=rule)
        await cluster.running(10)
        assert len({pod["spec"]["nodeName"] for pod in cluster.pods()}) == 1


async def test_gated_pods_wait_with_a_condition() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.pod("gated", spec={"schedulingGates": [{"name": "example.com/hold"}]})
        await cluster.refused("gated")
        assert condition(cluster.find_pod("gated"))["reason"] == "SchedulingGated"
        cluster.store.patch("pods", "gated", {"spec": {"schedulingGates": []}}, namespace="default")
        assert await cluster.bound("gated") == "n1"


async def test_a_nominated_node_is_preferred_and_kept_free() -> None:
    async with control_plane() as cluster:
        cluster.pod("hinted", cpu="900m")
        await cluster.refused("hinted")
        cluster.store.patch(
            "pods",
            "hinted",
            {"status": {"nominatedNodeName": "n2"}},
            namespace="default",
            subresource="status",
        )
        on_n2 = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}
        cluster.pod("rival", cpu="900m", spec=on_n2)
        await cluster.refused("rival")
        cluster.node("n2", cpu="1")
        cluster.node("n1", cpu="8")
        assert await cluster.bound("hinted") == "n2"
        assert cluster.node_of("rival") is None


async def test_higher_priority_goes_first() -> None:
    async with control_plane() as cluster:
        group = "scheduling.k8s.io"
        cluster.store.create(
            "priorityclasses", {"metadata": {"name": "high"}, "value": 9}, group=group
        )
        cluster.pod("low", cpu="1")
        cluster.pod("high", cpu="1", spec={"priorityClassName": "high"})
        await cluster.refused("low")
        await cluster.refused("high")
        cluster.node("n1", cpu="1")
        assert await cluster.bound("high") == "n1"
        assert cluster.node_of("low") is None


async def test_host_ports_clash() -> None:
    port = {"name": "c", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.pod("a", spec={"containers": [port]})
        await cluster.bound("a")
        cluster.pod("b", spec={"containers": [port]})
        await cluster.refused("b", "didn't have free ports")


async def test_most_allocated_packs_where_least_allocated_spreads() -> None:
    used: dict[str, int] = {}
    for strategy in ("most-allocated", "least-allocated"):
        async with control_plane(scheduler_strategy=strategy) as cluster:
            for number in range(4):
                cluster.node(f"n{number}")
            cluster.deployment("web", 8)
            await cluster.running(8)
            used[strategy] = len({pod["spec"]["nodeName"] for pod in cluster.pods()})
    assert used == {"most-allocated": 1, "least-allocated": 4}


async def test_another_scheduler_s_pods_are_left_alone() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.pod("foreign", spec={"schedulerName": "other"})
        cluster.pod("ours")
        await cluster.bound("ours")
        assert cluster.node_of("foreign") is None
        assert condition(cluster.find_pod("foreign")) == {}


@pytest.mark.slow
async def test_thousands_of_pods_that_fit_nowhere_do_not_hold_up_others() -> None:
    async with control_plane() as cluster:
        cluster.node("n1", cpu="4")
        cluster.deployment("huge", 2000, cpu="64")
        await wait_until(lambda: len(cluster.pods("app=huge")) == 2000, "pods exist")
        cluster.pod("small")
        assert await cluster.bound("small") == "n1"
        await wait_until(
            lambda: all(
                condition(p).get("reason") == "Unschedulable" for p in cluster.pods("app=huge")
            ),
            "every pod knows its verdict",
        )


async def test_a_pod_whose_nominated_node_has_no_room_goes_elsewhere() -> None:
    """KEP-5278: a nomination is a preference, whichever program wrote it."""
    async with control_plane() as cluster:
        cluster.pod("hinted", cpu="2")
        await cluster.refused("hinted")
        status = {"status": {"nominatedNodeName": "small"}}
        cluster.store.patch("pods", "hinted", status, namespace="default", subresource="status")
        cluster.node("small", cpu="1")
        cluster.node("large", cpu="4")
        assert await cluster.bound("hinted") == "large"


async def test_a_nomination_is_taken_back_from_a_pod_that_was_tried_in_vain() -> None:
    """As kube-scheduler does after unsuccessful preemption, whichever program nominated the pod."""
    async with control_plane() as cluster:
        cluster.pod("hinted", cpu="2")
        await cluster.refused("hinted")
        status = {"status": {"nominatedNodeName": "coming"}}
        cluster.store.patch("pods", "hinted", status, namespace="default", subresource="status")
        cluster.node("small", cpu="1")
        await wait_until(
            lambda: not cluster.find_pod("hinted")["status"].get("nominatedNodeName"),
            "the nomination is gone",
        )
        assert cluster.node_of("hinted") is None


async def test_a_nomination_alone_is_no_reason_to_try_a_pod_again() -> None:
    """Nothing in the cluster has changed: it keeps its nomination, and is tried with the next node."""
    async with control_plane() as cluster:
        cluster.node("small", cpu="1")
        cluster.pod("hinted", cpu="2")
        await cluster.refused("hinted")
        status = {"status": {"nominatedNodeName": "coming"}}
        cluster.store.patch("pods", "hinted", status, namespace="default", subresource="status")
        cluster.pod("other", cpu="3")
        await cluster.refused("other")  # the scheduler has seen all that came before
        assert cluster.find_pod("hinted")["status"]["nominatedNodeName"] == "coming"
        cluster.node("coming", cpu="4")
        assert await cluster.bound("hinted") == "coming"


@pytest.mark.slow
async def test_a_bounded_scheduler_writes_no_faster_than_that() -> None:
    """As kube-scheduler with its default limits, where a burst of pods is called unschedulable for many seconds."""
    rate, count = 20, 60
    async with control_plane(scheduler_writes_per_second=rate) as cluster:
        begin = time.monotonic()
        for number in range(count):
            cluster.pod(f"p{number}", cpu="1")
        for number in range(count):
            await cluster.refused(f"p{number}")
        assert time.monotonic() - begin >= (count - 2 * rate) / rate - 0.1
        cluster.node("n1", cpu="100")
        for number in range(count):
            assert await cluster.bound(f"p{number}") == "n1"
        assert time.monotonic() - begin >= (2 * count - 2 * rate) / rate - 0.1


async def test_among_many_nodes_the_nominated_one_is_tried_first() -> None:
    """Of 150 nodes only 100 are filtered for a pod without a nomination."""
    async with control_plane() as cluster:
        for number in range(150):
            cluster.node(f"n{number}")
        cluster.pod("first", spec={"nodeSelector": {"kubernetes.io/hostname": "n149"}})
        await cluster.bound("first")  # the scheduler has seen the last node
        pods = [f"p{number}" for number in range(10)]
        for name in pods:
            cluster.pod(name, spec={"schedulingGates": [{"name": "example.com/hold"}]})
            status = {"status": {"nominatedNodeName": "n149"}}
            cluster.store.patch("pods", name, status, namespace="default", subresource="status")
            cluster.store.patch(
                "pods", name, {"spec": {"schedulingGates": []}}, namespace="default"
            )
        assert {await cluster.bound(name) for name in pods} == {"n149"}
