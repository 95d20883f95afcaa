"""Cluster Autoscaler's rules about nodes that stay and pods that do not count, where the operator asks for them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.api.core.metadata import choice_faults, read_metadata
from shared.api.core.pods import parse_pod
from shared.disruption.candidates import offering_prices, survey
from shared.disruption.methods import emptiness, single_node
from shared.disruption.records import World
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.domain.workloads.scale_down import (
    KARPENTERS,
    SAFE_LOCAL_VOLUMES,
    SAFE_TO_EVICT,
    SCALE_DOWN_DISABLED,
    ScaleDownRules,
    utilization_percent,
)
from tests.support.planning.builders import amounts, make_pod, make_pool
from tests.support.planning.disruption import NOW, make_cluster, make_running, make_world, pods_on

ANNOTATED = ScaleDownRules(honors_annotations=True)
POOL = make_pool(
    generation_api=V1, consolidation_policy=WHEN_UNDERUTILIZED, consolidate_after_seconds=0.0
)


def pod(annotations: dict[str, str] | None = None, volumes: Any = (), **meta: Any) -> Pod:
    """On node a."""
    metadata = {
        "uid": "u", "namespace": "default", "name": "p", "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": annotations or {}, **meta,
    }  # fmt: skip
    requests = {"resources": {"requests": {"cpu": "500m"}}}
    spec = {"nodeName": "a", "containers": [{"name": "c", **requests}], "volumes": list(volumes)}
    return parse_pod({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})


def blocker(rules: ScaleDownRules, found: Pod) -> str:
    snapshot = make_cluster([make_running("a", pool=POOL)], found, pools=(POOL,))
    prices, nobody = offering_prices(snapshot.catalogue), frozenset[str]()
    (one,) = survey(
        snapshot, prices, nominated=nobody, busy=nobody, now=NOW, rules=rules
    ).candidates
    return one.blocker


def test_a_pod_that_is_not_safe_to_evict_keeps_its_node_only_if_asked_for() -> None:
    unsafe = pod({SAFE_TO_EVICT: "false"})
    assert blocker(ANNOTATED, unsafe) == f'pod has "{SAFE_TO_EVICT}" annotation'
    assert blocker(KARPENTERS, unsafe) == ""
    assert blocker(ANNOTATED, replace(unsafe, terminating=True)) == ""
    assert blocker(ANNOTATED, pod({SAFE_TO_EVICT: "no"})) == ""


DISK: dict[str, Any] = {"name": "data", "emptyDir": {}}


@pytest.mark.parametrize(
    ("annotations", "volumes", "stays"),
    [
        ({}, [DISK], True),
        ({}, [{"name": "logs", "hostPath": {"path": "/var/log"}}], True),
        ({}, [{"name": "data", "emptyDir": {"medium": "Memory"}}], False),
        ({}, [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}], False),
        ({SAFE_LOCAL_VOLUMES: "data"}, [DISK], False),
        ({SAFE_LOCAL_VOLUMES: "data,tmp"}, [DISK, {"name": "logs", "emptyDir": {}}], True),
        ({SAFE_TO_EVICT: "true"}, [DISK], False),
    ],
)
def test_local_storage_keeps_a_node_unless_the_pod_calls_it_safe(
    annotations: dict[str, str], volumes: Any, stays: bool
) -> None:
    rules = ScaleDownRules(honors_annotations=True, keeps_local_storage=True)
    assert (blocker(rules, pod(annotations, volumes)) == "pod has local storage") is stays
    assert blocker(ANNOTATED, pod(annotations, volumes)) == ""


def test_a_system_pod_keeps_its_node_unless_a_budget_guards_it() -> None:
    rules = ScaleDownRules(keeps_system_pods=True)
    assert "has no pdb" in blocker(rules, pod(namespace="kube-system"))
    daemon = {"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    assert blocker(rules, pod(namespace="kube-system", ownerReferences=[daemon])) == ""
    assert blocker(rules, pod()) == ""


def test_a_node_may_say_that_it_stays() -> None:
    annotated = make_running("a", pool=POOL, node_annotations={SCALE_DOWN_DISABLED: "true"})
    snapshot = make_cluster([annotated], pools=(POOL,))
    prices, nobody = offering_prices(snapshot.catalogue), frozenset[str]()
    asked = survey(snapshot, prices, nominated=nobody, busy=nobody, now=NOW, rules=ANNOTATED)
    (rejection,) = asked.rejections
    assert SCALE_DOWN_DISABLED in rejection.text
    assert survey(snapshot, prices, nominated=nobody, busy=nobody, now=NOW).candidates


def world_with(threshold: int | None) -> World:
    """Two nodes of 4 CPU: 2 of them are requested on a, half a one on b."""
    pool = replace(POOL, utilization_threshold=threshold)
    running = [make_running(name, pool=pool) for name in ("a", "b")]
    pods = (*pods_on("a", 4), *pods_on("b", 1))
    return make_world(make_cluster(running, *pods, pools=(pool,)))


def test_a_node_that_is_used_as_much_as_the_threshold_is_not_consolidated() -> None:
    assert single_node.propose(world_with(None)).commands
    low = single_node.propose(world_with(50))
    assert [c.node.name for c in low.commands[0].candidates] == ["b"]
    lowest = single_node.propose(world_with(12))
    assert not lowest.commands
    texts = {one.node: one.text for one in lowest.rejections}
    assert texts["a"] == "utilization is 50%, not below 12%"


def test_an_empty_node_goes_whatever_its_daemons_use() -> None:
    pool = replace(POOL, utilization_threshold=0)
    world = make_world(make_cluster([make_running("a", pool=pool)], pools=(pool,)))
    assert emptiness.propose(world).commands


@given(st.integers(0, 8000), st.integers(0, 32))
def test_utilization_is_that_of_the_scarcer_resource(cpu: int, memory: int) -> None:
    one = make_pod(cpu=f"{cpu}m", memory=f"{memory}Gi")
    percent = utilization_percent([one], amounts(cpu="4", memory="16Gi"))
    assert percent == max(100 * cpu // 4000, 100 * memory // 16)


def test_the_threshold_is_an_annotation_of_the_pool() -> None:
    name = "dovetail.sh/utilization-threshold"
    assert read_metadata({"metadata": {"annotations": {name: "50%"}}}).choices == {
        "utilization_threshold": 50
    }
    (fault,) = choice_faults({"metadata": {"annotations": {name: "0.5"}}})
    assert str(fault).endswith("'0.5' is not a percentage such as 50%")


def test_an_expendable_pod_neither_gets_nor_keeps_a_node() -> None:
    low = make_pod(priority=-20, expendable=True)
    assert not is_provisionable(low)
    busy = tuple(replace(one, expendable=True) for one in pods_on("a", 3))
    world = make_world(make_cluster([make_running("a", pool=POOL)], *busy, pools=(POOL,)))
    assert emptiness.propose(world).commands
