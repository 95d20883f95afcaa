"""The real kubectl against the embedded server."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.local.cluster.api.conftest import Api, Document
from tests.support.cluster.kubectl import Kubectl

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.slow
async def test_a_custom_resource_is_applied_listed_and_explained(
    kubectl: Kubectl, definition: Document
) -> None:
    assert (await kubectl("apply", "-f", "-", stdin=json.dumps(definition)))[0] == 0
    pool = {
        "apiVersion": "example.org/v1",
        "kind": "Pool",
        "metadata": {"name": "a"},
        "spec": {"weight": 7},
    }
    assert "created" in (await kubectl("apply", "-f", "-", stdin=json.dumps(pool)))[1]
    assert "unchanged" in (await kubectl("apply", "-f", "-", stdin=json.dumps(pool)))[1]
    _, table = await kubectl("get", "pools")
    assert table.split() == ["NAME", "WEIGHT", "READY", "a", "7"]
    if not kubectl.is_old:  # which asks for OpenAPI v2
        _, text = await kubectl("explain", "pool.spec.weight")
        assert "Priority." in text
    pool["spec"] = {"weight": 700}
    code, text = await kubectl("apply", "-f", "-", stdin=json.dumps(pool))
    assert code != 0
    assert "spec.weight: Invalid value: 700" in text


@pytest.mark.slow
async def test_a_node_is_labelled_tainted_cordoned_and_described(
    kubectl: Kubectl, api: Api
) -> None:
    api.store.create("nodes", NODE)
    assert (await kubectl("label", "node", "n1", "a=b"))[0] == 0
    assert (await kubectl("taint", "node", "n1", "x=y:NoSchedule"))[0] == 0
    assert api.store.get("nodes", "n1")["spec"]["taints"][0]["key"] == "x"
    assert (await kubectl("taint", "node", "n1", "x-"))[0] == 0
    assert not api.store.get("nodes", "n1")["spec"].get("taints")
    assert (await kubectl("cordon", "n1"))[0] == 0
    assert "Ready,SchedulingDisabled" in (await kubectl("get", "nodes"))[1]
    assert "Unschedulable:      true" in (await kubectl("describe", "node", "n1"))[1]


@pytest.mark.slow
async def test_a_deployment_is_scaled_patched_and_deleted(
    kubectl: Kubectl, api: Api, pod: Document
) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    assert (await kubectl("apply", "-f", "-", stdin=json.dumps(deployment)))[0] == 0
    assert (await kubectl("scale", "deployment/web", "--replicas=4"))[0] == 0
    assert (await kubectl("set", "image", "deployment/web", "app=app:2"))[0] == 0
    stored = api.store.get("deployments", "web", group="apps", namespace="default")
    assert stored["spec"]["replicas"] == 4
    assert stored["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"
    assert (await kubectl("delete", "deployment", "web"))[0] == 0
    assert (await kubectl("auth", "can-i", "create", "pods"))[1].strip() == "yes"


async def test_wait_sees_a_condition_that_comes_later(
    kubectl: Kubectl, api: Api, pod: Document
) -> None:
    api.store.create("pods", pod, namespace="default")
    waiting = asyncio.create_task(
        kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    )
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    api.store.patch("pods", "web", {"status": ready}, namespace="default", subresource="status")
    code, text = await waiting
    assert (code, "condition met" in text) == (0, True)


async def confirm_deletions(api: Api) -> None:
    """A kubelet's part: end the pods that are marked for deletion."""
    subscription = api.store.subscribe("pods")
    async for kind, pod, _ in subscription.events():
        if kind != "DELETED" and pod["metadata"].get("deletionTimestamp"):
            name = pod["metadata"]["name"]
            api.store.delete("pods", name, namespace="default", grace_seconds=0)


async def test_drain_evicts_and_waits_for_the_pods_to_go(
    kubectl: Kubectl, api: Api, pod: Document
) -> None:
    api.store.create("nodes", NODE)
    api.store.create("pods", pod, namespace="default")
    api.store.bind("web", "default", "n1")
    kubelet = asyncio.create_task(confirm_deletions(api))
    code, text = await kubectl("drain", "n1", "--force")
    kubelet.cancel()
    await asyncio.gather(kubelet, return_exceptions=True)
    assert (code, f"node/n1 {'evicted' if kubectl.is_old else 'drained'}" in text) == (0, True)
    assert api.store.list("pods") == []


@pytest.mark.slow
async def test_drain_stops_at_an_exhausted_budget(
    kubectl: Kubectl, api: Api, pod: Document
) -> None:
    api.store.create("nodes", NODE)
    api.store.create("pods", pod, namespace="default")
    api.store.bind("web", "default", "n1")
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.store.patch("pods", "web", {"status": ready}, namespace="default", subresource="status")
    selector = {"matchLabels": {"app": "web"}}
    body = {"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": selector}}
    api.store.create("poddisruptionbudgets", body, group="policy", namespace="default")
    code, text = await kubectl("drain", "n1", "--force", "--timeout=4s")
    assert code != 0
    assert "violate the pod's disruption budget" in text
    assert len(api.store.list("pods")) == 1


async def test_events_have_a_real_server_s_columns(kubectl: Kubectl, api: Api) -> None:
    involved = {"kind": "Pod", "name": "web", "namespace": "default"}
    event = {
        "metadata": {"name": "web.1"},
        "involvedObject": involved,
        "type": "Normal",
        "reason": "Scheduled",
        "message": "Successfully assigned",
        "count": 3,
    }
    api.store.create("events", event, namespace="default")
    heading, row = (await kubectl("get", "events"))[1].splitlines()
    assert heading.split("  ")[0] == "LAST SEEN"
    assert [" ".join(cell.split()) for cell in heading.split("   ") if cell.strip()] == [
        "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE",
    ]  # fmt: skip
    assert row.split()[1:4] == ["Normal", "Scheduled", "pod/web"]
    wide = (await kubectl("get", "events", "-o", "wide"))[1].splitlines()
    assert wide[0].split()[-2:] == ["COUNT", "NAME"]
    assert wide[1].split()[-2:] == ["3", "web.1"]


@pytest.mark.slow
async def test_logs_report_at_once_why_there_are_none(
    kubectl: Kubectl, api: Api, pod: Document
) -> None:
    api.store.create("pods", pod, namespace="default")
    said = "web/app: pods of this cluster are simulated and write no log.\n"
    assert await kubectl("logs", "web") == (0, said)
    assert await kubectl("logs", "--follow", "web", "-c", "app") == (0, said)
    code, text = await kubectl("logs", "web", "-c", "other")
    assert (code, "container other is not valid for pod web" in text) == (1, True)
    assert "not found" in (await kubectl("logs", "gone"))[1]


async def test_roles_and_bindings_are_listed_with_a_real_server_s_columns(kubectl: Kubectl) -> None:
    assert (await kubectl("get", "clusterroles"))[1].split()[:3] == ["NAME", "CREATED", "AT"]
    table = (await kubectl("get", "clusterrolebindings", "cluster-admin"))[1].split()
    assert table[:5] == ["NAME", "ROLE", "AGE", "cluster-admin", "ClusterRole/cluster-admin"]
