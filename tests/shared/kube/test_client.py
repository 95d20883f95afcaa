"""The client against an API server that keeps objects."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from shared import errors
from shared.kube.resources import CONFIG_MAPS, PODS
from tests.support.cluster.fixture import Cluster

POD = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}


async def test_create_get_patch_delete(cluster: Cluster) -> None:
    kube, here = cluster.kube, cluster.namespace
    made = await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}}, here)
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    patched = await kube.patch(CONFIG_MAPS, "a", {"data": {"x": None, "y": "2"}}, here)
    assert patched["data"] == {"y": "2"}
    assert (await kube.get(CONFIG_MAPS, "a", here))["data"] == {"y": "2"}
    await kube.delete(CONFIG_MAPS, "a", here)
    with pytest.raises(errors.NotFound):
        await kube.get(CONFIG_MAPS, "a", here)


async def test_a_patch_for_another_object_of_the_same_name_is_a_conflict(cluster: Cluster) -> None:
    """The API server says 422 here, as it does of a user's wrong object: nobody could tell them apart."""
    kube, here = cluster.kube, cluster.namespace
    made = await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, here)
    body = {"metadata": {"uid": "another"}, "data": {"x": "1"}}
    with pytest.raises(errors.Conflict, match="another object has this name"):
        await kube.patch(CONFIG_MAPS, "a", body, here)
    body["metadata"]["uid"] = made["metadata"]["uid"]
    assert (await kube.patch(CONFIG_MAPS, "a", body, here))["data"] == {"x": "1"}


@pytest.mark.slow
async def test_every_request_is_told_with_its_status(cluster: Cluster) -> None:
    """Of a watch: when it is open."""
    told: list[tuple[tuple[str, ...], str, int]] = []
    cluster.kube.observe(
        lambda target, method, _host, code, _time: told.append((target, method, code))
    )
    try:
        with pytest.raises(errors.NotFound):
            await cluster.kube.get(CONFIG_MAPS, "nobodys", cluster.namespace)
        version = (await cluster.kube.list(PODS)).resource_version
        watch = cluster.kube.watch(PODS, version, timeout_seconds=1)
        async with aclosing(watch) as events:
            _ = [event async for event in events]
    finally:
        cluster.kube.observe(lambda *_: None)
    assert told == [
        (("get", "", "v1", "ConfigMap", ""), "GET", 404),
        (("list", "", "v1", "Pod", ""), "GET", 200),
        (("watch", "", "v1", "Pod", ""), "GET", 200),
    ]


async def test_a_name_is_taken_once(cluster: Cluster) -> None:
    """R4: a duplicate create is AlreadyExists."""
    body = {"metadata": {"name": "a", "namespace": cluster.namespace}}
    await cluster.kube.create(CONFIG_MAPS, body)
    with pytest.raises(errors.AlreadyExists):
        await cluster.kube.create(CONFIG_MAPS, body)


async def test_writes_compare_and_set(cluster: Cluster) -> None:
    """R3: writes carry a version or UID."""
    kube, here = cluster.kube, cluster.namespace
    old = await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, here)
    await kube.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, here)
    version = {"resourceVersion": old["metadata"]["resourceVersion"]}
    with pytest.raises(errors.Conflict):
        await kube.patch(CONFIG_MAPS, "a", {"metadata": version}, here)
    with pytest.raises(errors.Conflict):
        await kube.replace(CONFIG_MAPS, old | {"data": {"x": "2"}})
    test = {"op": "test", "path": "/data/x", "value": "7"}
    with pytest.raises(errors.Conflict):
        await kube.json_patch(CONFIG_MAPS, "a", [test], here)


async def test_delete_and_evict_want_the_right_uid(cluster: Cluster) -> None:
    """R5: checked by a consistent read."""
    kube, here = cluster.kube, cluster.namespace
    made = await kube.create(PODS, POD, here)
    with pytest.raises(errors.Conflict):
        await kube.delete(PODS, "web", here, uid="another")
    with pytest.raises(errors.Conflict):
        await kube.evict("web", here, uid="another")
    await kube.evict("web", here, uid=made["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await kube.evict("web", here, uid=made["metadata"]["uid"])


async def test_a_list_reads_all_pages_and_honours_selectors(cluster: Cluster) -> None:
    kube, here = cluster.kube, cluster.namespace
    for number in range(5):
        labels = {"odd": str(number % 2)}
        body = {"metadata": {"name": f"c{number}", "labels": labels}}
        await kube.create(CONFIG_MAPS, body, here)
    pages = kube.pages(CONFIG_MAPS, here, label_selector="odd=1", page_size=1)
    odd = [item async for one in pages for item in one.items]
    assert [item["metadata"]["name"] for item in odd] == ["c1", "c3"]
    assert odd[0]["kind"] == "ConfigMap"
    named = await kube.list(CONFIG_MAPS, here, field_selector="metadata.name=c4")
    assert [item["metadata"]["name"] for item in named.items] == ["c4"]


async def test_a_list_of_metadata_leaves_the_rest_out(cluster: Cluster) -> None:
    """In pages, of one version, with the versions and UIDs of the whole objects."""
    kube, here = cluster.kube, cluster.namespace
    for number in range(3):
        body = {"metadata": {"name": f"c{number}"}, "data": {"much": "x" * 1000}}
        await kube.create(CONFIG_MAPS, body, here)
    pages = [one async for one in kube.pages(CONFIG_MAPS, here, page_size=2, metadata_only=True)]
    whole = await kube.list(CONFIG_MAPS, here)
    found = [item for one in pages for item in one.items]
    assert [item["metadata"] for item in found] == [item["metadata"] for item in whole.items]
    assert not any("data" in item for item in found)
    assert len(pages) == 2
    assert {one.resource_version for one in pages} == {pages[0].resource_version}


async def test_a_watch_starts_where_the_list_ended(cluster: Cluster) -> None:
    kube, here = cluster.kube, cluster.namespace
    listed = await kube.list(CONFIG_MAPS, here)
    await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, here)
    await kube.delete(CONFIG_MAPS, "a", here)
    watch = kube.watch(CONFIG_MAPS, listed.resource_version, timeout_seconds=10)
    seen = []
    async with aclosing(watch):
        async for event in watch:
            if event.object["metadata"].get("namespace") == here:
                seen.append(event.type)
            if len(seen) == 2:
                break
    assert seen == ["ADDED", "DELETED"]
