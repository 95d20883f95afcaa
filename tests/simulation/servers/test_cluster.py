"""The API server and its nodes on the loop: real clients, no thread, virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
import pytest

from shared.errors import DovetailError
from shared.kube.resources import CONFIG_MAPS
from tests.simulation.servers.conftest import Servers, watch_lines

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


def ready(servers: Servers, node: str) -> str:
    document = servers.cluster.store.get("nodes", node)
    conditions = {one["type"]: one["status"] for one in document["status"]["conditions"]}
    return str(conditions["Ready"])


def nodes_of(servers: Servers, instances: list[str]) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in servers.cluster.store.list("nodes")
        if node["spec"]["providerID"].rpartition("/")[2] in instances
    ]


def test_changes_are_reported_with_their_verb_and_author(servers: Servers) -> None:
    async def change() -> Any:
        async with servers.kube("dovetail-launcher/1") as kube:
            await kube.create(CONFIG_MAPS, config_map("one"))
            await kube.patch(CONFIG_MAPS, "one", {"data": {"a": "b"}}, namespace="default")
            await kube.delete(CONFIG_MAPS, "one", namespace="default")

    servers.run(change())
    found = [one for one in servers.changes if one[3] == "one"]
    assert found == [
        (verb, "configmaps", "default", "one", "dovetail-launcher")
        for verb in ("create", "patch", "delete", "remove")
    ]


def test_an_eviction_and_the_end_of_its_pod_are_reported(servers: Servers) -> None:
    async def evict() -> Any:
        await asyncio.sleep(5)
        (pod,) = servers.cluster.store.list("pods", namespace="kube-system")[:1]
        name = pod["metadata"]["name"]
        async with servers.http() as http:
            path = f"/api/v1/namespaces/kube-system/pods/{name}/eviction"
            async with http.post(path, json={"metadata": {"name": name}}) as answer:
                assert answer.status == 201
        await asyncio.sleep(60)
        return name

    name = servers.run(evict())
    verbs = [one[0] for one in servers.changes if one[1] == "pods" and one[3] == name]
    assert verbs.count("evict") == verbs.count("remove") == 1
    assert "delete" not in verbs
    assert verbs[-1] == "remove"


def test_a_watch_tells_of_a_change_and_ends_in_the_middle_of_a_line(servers: Servers) -> None:
    async def watch() -> Any:
        async with servers.http() as http:
            async with http.get(MAPS) as answer:
                version = (await answer.json())["metadata"]["resourceVersion"]
            lines = watch_lines(http, f"{MAPS}?watch=true&resourceVersion={version}")
            first = asyncio.ensure_future(anext(lines))
            async with http.post(MAPS, json=config_map("new")):
                pass
            event = await first
            servers.cluster.truncate_watches()
            with pytest.raises((aiohttp.ClientError, orjson.JSONDecodeError)):
                await anext(lines)
            return event

    assert servers.run(watch())["object"]["metadata"]["name"] == "new"


def test_after_a_compaction_every_watch_is_too_old(servers: Servers) -> None:
    async def watch() -> Any:
        async with servers.http() as http:
            async with http.get(MAPS) as answer:
                version = (await answer.json())["metadata"]["resourceVersion"]
            path = f"{MAPS}?watch=true&resourceVersion={version}"
            lines = watch_lines(http, path)
            open_watch = asyncio.ensure_future(anext(lines))
            await asyncio.sleep(1)
            servers.cluster.relist()
            return await open_watch, await anext(watch_lines(http, path))

    for event in servers.run(watch()):
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_controllers_go_on_after_a_compaction(servers: Servers) -> None:
    async def scale() -> Any:
        await asyncio.sleep(5)
        servers.cluster.relist()
        await asyncio.sleep(5)
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "main", "image": "app"}]},
        }
        spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        document = {"metadata": {"name": "web"}, "spec": spec}
        servers.cluster.store.create("deployments", document, group="apps", namespace="default")
        await asyncio.sleep(10)
        pods = servers.cluster.store.list("pods", namespace="default")
        return [pod["status"]["phase"] for pod in pods]

    assert servers.run(scale()) == ["Running", "Running"]


def test_a_server_that_is_down_resets_connections_and_comes_back(servers: Servers) -> None:
    async def ask() -> Any:
        async with servers.http() as http:
            async with http.get(MAPS) as answer:
                assert answer.status == 200
            servers.cluster.down(30)
            with pytest.raises(aiohttp.ClientError):
                await http.get(MAPS)
            await asyncio.sleep(30.1)
            async with http.get(MAPS) as answer:
                return answer.status

    assert servers.run(ask()) == 200


@pytest.mark.parametrize("status", [409, 429, 500])
def test_requests_are_refused_for_a_while(servers: Servers, status: int) -> None:
    async def ask() -> Any:
        servers.cluster.store.create("configmaps", config_map("one"))
        servers.cluster.refuse(status, 100, 10)
        async with servers.kube() as kube:

            async def change() -> None:
                async with asyncio.timeout(5):
                    body = {"data": {"at": str(servers.loop.time())}}
                    await kube.patch(CONFIG_MAPS, "one", body, namespace="default")

            with pytest.raises((DovetailError, TimeoutError)):
                await change()
            await asyncio.sleep(11)
            await change()

    servers.run(ask())


def test_a_share_of_the_requests_is_refused(servers: Servers) -> None:
    async def ask() -> Any:
        servers.cluster.refuse(500, 30, 60)
        found = []
        async with servers.http() as http:
            for _ in range(200):
                async with http.get(MAPS) as answer:
                    found.append(answer.status)
        return found

    found = servers.run(ask())
    assert 30 <= found.count(500) <= 90
    assert set(found) == {200, 500}


def test_etcd_returns_to_an_earlier_state_with_its_versions(servers: Servers) -> None:
    async def roll_back() -> Any:
        store = servers.cluster.store
        store.create("configmaps", config_map("old"))
        await asyncio.sleep(30)
        earlier = store.revision
        store.create("configmaps", config_map("lost"))
        store.delete("configmaps", "old", namespace="default")
        await asyncio.sleep(8)
        async with servers.http() as http:
            async with http.get(MAPS) as answer:
                seen = (await answer.json())["metadata"]["resourceVersion"]
            lines = watch_lines(http, f"{MAPS}?watch=true&resourceVersion={seen}")
            lost = asyncio.ensure_future(anext(lines))
            await asyncio.sleep(1)
            servers.cluster.roll_back(20)
            with pytest.raises(aiohttp.ClientError):
                await lost
            async with http.get(MAPS) as answer:
                found = await answer.json()
            too_new = await anext(watch_lines(http, f"{MAPS}?watch=true&resourceVersion={seen}"))
        names = [one["metadata"]["name"] for one in found["items"]]
        return names, int(found["metadata"]["resourceVersion"]) <= earlier, too_new

    names, is_earlier, too_new = servers.run(roll_back())
    assert "old" in names
    assert "lost" not in names
    assert is_earlier
    assert too_new["object"]["code"] == 410
    assert ("restore", "", None, "", "etcd") in servers.changes


def test_an_instance_becomes_a_ready_node_and_its_end_removes_the_node(servers: Servers) -> None:
    async def live() -> Any:
        instances = await servers.launch()
        await asyncio.sleep(35)
        (node,) = nodes_of(servers, instances)
        is_ready = ready(servers, node)
        servers.aws.emulator.inventory.terminate(servers.instance(instances[0]))
        await asyncio.sleep(60)
        return is_ready, nodes_of(servers, instances)

    assert servers.run(live()) == ("True", [])


def test_a_node_that_was_not_ready_in_the_backup_becomes_ready_again(servers: Servers) -> None:
    async def live() -> Any:
        begun = servers.loop.time()
        await asyncio.sleep(2)
        instances = await servers.launch()
        await asyncio.sleep(40)
        (node,) = nodes_of(servers, instances)
        before = ready(servers, node)
        # The backup of 30 s: the node joined 28 s after the start, and was ready 4 s later.
        servers.cluster.roll_back(servers.loop.time() - begun - 31)
        during = ready(servers, node)
        await asyncio.sleep(10)
        return before, during, ready(servers, node)

    assert servers.run(live()) == ("True", "False", "True")


@pytest.mark.slow
def test_a_node_whose_instance_ended_before_the_rollback_is_removed_again(servers: Servers) -> None:
    async def live() -> Any:
        instances = await servers.launch()
        await asyncio.sleep(40)
        servers.aws.emulator.inventory.terminate(servers.instance(instances[0]))
        await asyncio.sleep(60)
        gone = nodes_of(servers, instances)
        servers.cluster.roll_back(40)
        back = len(nodes_of(servers, instances))
        await asyncio.sleep(60)
        return gone, back, nodes_of(servers, instances)

    assert servers.run(live()) == ([], 1, [])


def test_instances_that_are_launched_in_a_bad_time_never_join(servers: Servers) -> None:
    async def live() -> Any:
        servers.cluster.never_join(10)
        bad = await servers.launch()
        await asyncio.sleep(15)
        good = await servers.launch()
        await asyncio.sleep(60)
        return len(nodes_of(servers, bad)), len(nodes_of(servers, good))

    assert servers.run(live()) == (0, 1)


def test_a_kubelet_that_stops_makes_its_node_unknown_until_it_reports_again(
    servers: Servers,
) -> None:
    async def live() -> Any:
        instances = await servers.launch()
        await asyncio.sleep(40)
        (node,) = nodes_of(servers, instances)
        before = ready(servers, node)
        servers.cluster.stop_kubelets(100, 100)
        await asyncio.sleep(60)
        during = ready(servers, node)
        await asyncio.sleep(60)
        return before, during, ready(servers, node)

    assert servers.run(live()) == ("True", "Unknown", "True")
