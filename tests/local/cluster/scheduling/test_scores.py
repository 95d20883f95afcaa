"""The choice between nodes that fit: preferences decide where no filter does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster.local_cluster import control_plane

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def preferred_pods(kind: str) -> dict[str, Any]:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
    return {"affinity": {kind: {PREFERRED: [{"weight": 10, "podAffinityTerm": term}]}}}


def preferred_nodes(value: str) -> dict[str, Any]:
    expression = {"key": "disk", "operator": "In", "values": [value]}
    term = {"weight": 10, "preference": {"matchExpressions": [expression]}}
    return {"affinity": {"nodeAffinity": {PREFERRED: [term]}}}


@pytest.mark.parametrize("disk", ["ssd", "hdd"])
async def test_a_preferred_node_is_chosen(disk: str) -> None:
    async with control_plane() as cluster:
        cluster.node("ssd", labels={"disk": "ssd"})
        cluster.node("hdd", labels={"disk": "hdd"})
        cluster.pod("web", spec=preferred_nodes(disk))
        assert await cluster.bound("web") == disk


async def test_a_soft_taint_is_avoided_while_another_node_fits() -> None:
    taint = {"key": "old", "value": "yes", "effect": "PreferNoSchedule"}
    async with control_plane() as cluster:
        cluster.node("new", cpu="1")
        cluster.node("old", cpu="1", taints=[taint])
        cluster.pod("first", cpu="1")
        assert await cluster.bound("first") == "new"
        cluster.pod("second", cpu="1")
        assert await cluster.bound("second") == "old"


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
async def test_preferred_pods_attract_and_repel(kind: str) -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.node("n2")
        cluster.pod("db", labels={"app": "db"})
        place = await cluster.bound("db")
        cluster.pod("web", spec=preferred_pods(kind))
        assert (await cluster.bound("web") == place) is (kind == "podAffinity")
