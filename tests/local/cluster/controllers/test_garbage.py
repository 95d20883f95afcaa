"""Owner references and namespaces: deletion of dependents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster.local_cluster import LocalCluster, control_plane
from tests.support.waiting import wait_until


def names(cluster: LocalCluster, plural: str, group: str = "") -> set[str]:
    return {
        o["metadata"]["name"] for o in cluster.store.list(plural, group=group, namespace="default")
    }


def reference(owner: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }


def config_map(cluster: LocalCluster, name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "ownerReferences": [reference(owner) for owner in owners]}
    return cluster.store.create("configmaps", {"metadata": metadata}, namespace="default")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_deleting_a_deployment_takes_replica_sets_and_pods_along(propagation: str) -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.deployment("web", 5)
        await cluster.running(5)
        cluster.store.delete(
            "deployments", "web", group="apps", namespace="default", propagation=propagation
        )
        await wait_until(
            lambda: (
                not names(cluster, "pods")
                and not names(cluster, "replicasets", "apps")
                and not names(cluster, "deployments", "apps")
            ),
            "everything is gone",
            show=lambda: [names(cluster, "pods"), names(cluster, "replicasets", "apps")],
        )


async def test_orphaned_pods_stay() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.deployment("web", 2)
        await cluster.running(2)
        replica_set = names(cluster, "replicasets", "apps").pop()
        cluster.store.delete(
            "deployments", "web", group="apps", namespace="default", propagation="Orphan"
        )
        await wait_until(lambda: not names(cluster, "deployments", "apps"), "the owner is gone")
        found = cluster.store.get("replicasets", replica_set, group="apps", namespace="default")
        assert not found["metadata"].get("ownerReferences")
        assert len(cluster.pods()) == 2


async def test_one_living_owner_keeps_an_object() -> None:
    async with control_plane() as cluster:
        first, second = config_map(cluster, "first"), config_map(cluster, "second")
        config_map(cluster, "child", first, second)
        config_map(
            cluster, "grandchild", cluster.store.get("configmaps", "child", namespace="default")
        )
        cluster.store.delete("configmaps", "first", namespace="default")

        def owners() -> list[str]:
            child = cluster.store.get("configmaps", "child", namespace="default")
            return [o["name"] for o in child["metadata"]["ownerReferences"]]

        await wait_until(lambda: owners() == ["second"], "the dead reference is removed")
        cluster.store.delete("configmaps", "second", namespace="default")
        await wait_until(
            lambda: not {"child", "grandchild"} & names(cluster, "configmaps"), "both are gone"
        )


async def test_an_object_created_after_its_owner_went_is_collected() -> None:
    async with control_plane() as cluster:
        owner = config_map(cluster, "owner")
        cluster.store.delete("configmaps", "owner", namespace="default")
        config_map(cluster, "late", owner)
        await wait_until(lambda: "late" not in names(cluster, "configmaps"), "it is collected")


async def test_custom_resources_are_followed() -> None:
    names_of = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Cluster", "names": names_of, "versions": [version]}
    async with control_plane() as cluster:
        definition = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
        cluster.store.create("customresourcedefinitions", definition, group="apiextensions.k8s.io")
        widget = cluster.store.create("widgets", {"metadata": {"name": "w"}}, group="example.com")
        config_map(cluster, "of-widget", widget)
        cluster.store.delete("widgets", "w", group="example.com")
        await wait_until(lambda: "of-widget" not in names(cluster, "configmaps"), "it is collected")


async def test_a_namespace_goes_with_everything_in_it() -> None:
    async with control_plane() as cluster:
        cluster.node("n1")
        cluster.store.create("namespaces", {"metadata": {"name": "team"}})
        cluster.pod("p", namespace="team")
        cluster.store.create("configmaps", {"metadata": {"name": "c"}}, namespace="team")
        await wait_until(
            lambda: cluster.find_pod("p", "team")["status"].get("phase") == "Running", "it runs"
        )
        cluster.store.delete("namespaces", "team")
        await wait_until(lambda: cluster.store.find("namespaces", "team") is None, "it is gone")
        assert cluster.store.list("pods", namespace="team") == []


async def test_each_namespace_has_its_own_account_which_comes_back() -> None:
    async with control_plane() as cluster:
        cluster.store.create("namespaces", {"metadata": {"name": "shop"}})

        def account() -> str:
            found = cluster.store.find("serviceaccounts", "default", namespace="shop")
            return found["metadata"]["uid"] if found else ""

        first = await wait_until(account, "the account is there")
        cluster.store.delete("serviceaccounts", "default", namespace="shop")
        await wait_until(lambda: account() not in ("", first), "it is there again")
        cluster.store.delete("namespaces", "shop")
        await wait_until(lambda: cluster.store.find("namespaces", "shop") is None, "all is gone")
