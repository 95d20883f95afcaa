"""Resource claims: made from templates, allocated on a node that has the devices, and given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.cluster.local_cluster import LocalCluster, control_plane
from tests.support.waiting import wait_until

CRDS = Path(__file__).parents[4] / "deploy" / "crds"
GROUP = "resource.k8s.io"
GPU = "gpu.nvidia.com"
TYPE_LABEL = "node.kubernetes.io/instance-type"


def product(name: str) -> dict[str, Any]:
    return {"cel": {"expression": f'device.attributes["{GPU}"].productName == "{name}"'}}


def exactly(**fields: Any) -> dict[str, Any]:
    return {"name": "gpu", "exactly": {"deviceClassName": GPU, **fields}}


def device_class(cluster: LocalCluster) -> None:
    selector = {"cel": {"expression": f'device.driver == "{GPU}"'}}
    body = {"metadata": {"name": GPU}, "spec": {"selectors": [selector]}}
    cluster.store.create("deviceclasses", body, group=GROUP)


def devices(cluster: LocalCluster, node: str, *products: str, **spec: Any) -> None:
    """A node with these GPUs."""
    cluster.node(node)
    listed = [
        {"name": f"gpu-{at}", "attributes": {"productName": {"string": one}}}
        for at, one in enumerate(products)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    whole = {"driver": GPU, "nodeName": node, "pool": pool, "devices": listed, **spec}
    body = {"metadata": {"name": f"{node}-gpus"}, "spec": whole}
    cluster.store.create("resourceslices", body, group=GROUP)


def template(cluster: LocalCluster, request: dict[str, Any], **more: Any) -> None:
    spec = {"spec": {"devices": {"requests": [request], **more}}}
    body = {"metadata": {"name": "gpus"}, "spec": spec}
    cluster.store.create("resourceclaimtemplates", body, group=GROUP, namespace="default")


def claim(cluster: LocalCluster, request: dict[str, Any]) -> None:
    body = {"metadata": {"name": "shared"}, "spec": {"devices": {"requests": [request]}}}
    cluster.store.create("resourceclaims", body, group=GROUP, namespace="default")


FROM_TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}
BY_NAME = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}


def claims(cluster: LocalCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.store.list("resourceclaims", group=GROUP)
    return found


def results(found: dict[str, Any]) -> list[str]:
    return [one["device"] for one in found["status"]["allocation"]["devices"]["results"]]


async def test_a_pod_goes_to_the_node_with_the_devices_that_its_claim_selects() -> None:
    async with control_plane() as cluster:
        device_class(cluster)
        devices(cluster, "small", "L4")
        devices(cluster, "large", "L4", "H100")
        template(cluster, exactly(selectors=[product("H100")]))
        cluster.pod("web", spec=FROM_TEMPLATE)
        assert await cluster.bound("web") == "large"
        (made,) = claims(cluster)
        assert results(made) == ["gpu-1"]
        pod = cluster.store.get("pods", "web", namespace="default")
        assert [one["name"] for one in made["status"]["reservedFor"]] == ["web"]
        (status,) = pod["status"]["resourceClaimStatuses"]
        assert status == {"name": "gpu", "resourceClaimName": made["metadata"]["name"]}


async def test_devices_are_given_out_once_and_come_back_with_their_pod() -> None:
    async with control_plane() as cluster:
        device_class(cluster)
        devices(cluster, "node", "L4")
        template(cluster, exactly())
        cluster.pod("first", spec=FROM_TEMPLATE)
        assert await cluster.bound("first") == "node"
        cluster.pod("second", spec=FROM_TEMPLATE)
        await cluster.refused("second", "0/1 nodes are available: 1 cannot allocate all claims.")
        cluster.store.delete("pods", "first", namespace="default", grace_seconds=0)
        assert await cluster.bound("second") == "node"
        await wait_until(lambda: len(claims(cluster)) == 1, "the first pod's claim is deleted")


async def test_a_claim_with_a_name_is_shared_on_one_node_and_freed_after_its_last_pod() -> None:
    async with control_plane() as cluster:
        device_class(cluster)
        devices(cluster, "one", "L4")
        devices(cluster, "two", "L4")
        claim(cluster, exactly())
        cluster.pod("first", spec=BY_NAME)
        cluster.pod("second", spec=BY_NAME)
        assert await cluster.bound("first") == await cluster.bound("second")
        for name in ("first", "second"):
            cluster.store.delete("pods", name, namespace="default", grace_seconds=0)
        await wait_until(
            lambda: "allocation" not in claims(cluster)[0]["status"], "the claim is free"
        )


async def test_the_first_available_alternative_is_taken() -> None:
    async with control_plane() as cluster:
        device_class(cluster)
        devices(cluster, "node", "L4", "L4", "L4")
        alternatives = [
            {"name": "best", "deviceClassName": GPU, "selectors": [product("H100")]},
            {"name": "pair", "deviceClassName": GPU, "count": 2},
        ]
        template(cluster, {"name": "gpu", "firstAvailable": alternatives})
        cluster.pod("web", spec=FROM_TEMPLATE)
        assert await cluster.bound("web") == "node"
        (made,) = claims(cluster)
        found = made["status"]["allocation"]["devices"]["results"]
        assert [one["request"] for one in found] == ["gpu/pair", "gpu/pair"]


async def test_partitions_take_the_counters_of_their_gpu() -> None:
    """Three partitions on two GPUs of which each holds one large and none beside, or two small ones."""
    async with control_plane() as cluster:
        device_class(cluster)
        parts = [
            {
                "name": f"gpu-{gpu}-{size}-{number}",
                "attributes": {"productName": {"string": size}},
                "consumesCounters": [
                    {"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": amount}}}
                ],
            }
            for gpu in range(2)
            for size, amount, count in (("large", "40Gi", 1), ("small", "20Gi", 2))
            for number in range(count)
        ]
        sets = [{"name": f"gpu-{at}", "counters": {"memory": {"value": "40Gi"}}} for at in range(2)]
        devices(cluster, "node", devices=parts, sharedCounters=sets)
        template(cluster, exactly(selectors=[product("large")]))
        cluster.pod("large", spec=FROM_TEMPLATE)
        assert await cluster.bound("large") == "node"
        claim(cluster, exactly(selectors=[product("small")], count=2))
        cluster.pod("small", spec=BY_NAME)
        assert await cluster.bound("small") == "node"
        held = sorted(name for one in claims(cluster) for name in results(one))
        assert [name[:11] for name in held] == ["gpu-0-large", "gpu-1-small", "gpu-1-small"]


async def test_devices_on_one_root_are_found_by_going_back() -> None:
    """matchAttribute: the first device has no partner on its root."""
    async with control_plane() as cluster:
        device_class(cluster)
        listed = [
            {"name": f"gpu-{at}", "attributes": {"root": {"string": root}}}
            for at, root in enumerate(("a", "b", "b"))
        ]
        devices(cluster, "node", devices=listed)
        template(cluster, exactly(count=2), constraints=[{"matchAttribute": f"{GPU}/root"}])
        cluster.pod("web", spec=FROM_TEMPLATE)
        assert await cluster.bound("web") == "node"
        assert results(claims(cluster)[0]) == ["gpu-1", "gpu-2"]


async def test_drivers_publish_the_devices_of_a_node_which_go_with_it() -> None:
    settings = {"dra_drivers": GPU, "dra_driver_seconds": 0.0}
    async with control_plane(**settings) as cluster:
        cluster.node("gpu-node", labels={TYPE_LABEL: "g6.12xlarge"})

        def slices() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = cluster.store.list("resourceslices", group=GROUP)
            return found

        await wait_until(lambda: len(slices()) == 1, "the slice is published")
        (found,) = slices()
        assert found["spec"]["nodeName"] == "gpu-node"
        assert [one["name"] for one in found["spec"]["devices"]] == [f"gpu-{n}" for n in range(4)]
        cluster.store.delete("nodes", "gpu-node")
        await wait_until(lambda: not slices(), "the slice is gone")


async def test_drivers_publish_what_device_templates_say() -> None:
    """DRA-04: two halves of a GPU, with their counters."""
    settings = {"dra_drivers": GPU, "dra_driver_seconds": 0.0, "crd_directory": CRDS}
    async with control_plane(**settings) as cluster:
        half = {
            "name": "half",
            "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "12"}}}],
        }
        counters = {"name": "gpu", "counters": {"memory": {"value": "24"}}}
        driver = {"driver": GPU, "devices": [half], "sharedCounters": [counters]}
        on = {"key": TYPE_LABEL, "operator": "In", "values": ["g5.xlarge"]}
        body = {"metadata": {"name": "halves"}, "spec": {"requirements": [on], "drivers": [driver]}}
        cluster.store.create("devicetemplates", body, group="dovetail.sh")
        cluster.node("gpu-node", labels={TYPE_LABEL: "g5.xlarge"})

        def slices() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = cluster.store.list("resourceslices", group=GROUP)
            return found

        await wait_until(lambda: len(slices()) == 1, "the slice is published")
        spec = slices()[0]["spec"]
        assert [one["name"] for one in spec["devices"]] == ["half"]
        assert spec["devices"][0]["consumesCounters"] == half["consumesCounters"]
        assert spec["sharedCounters"] == [counters]
