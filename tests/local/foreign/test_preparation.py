"""Objects on an existing cluster: their creation, refusals, and complete removal.

An embedded API server without controllers stands for a cluster that runs already, as envtest's does.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from local.cluster.kubeconfig import write_kubeconfig
from local.foreign.objects import CRDS, CREATED, SERVICE_ACCOUNTS
from local.foreign.preparation import DEPLOYMENTS, prepare
from local.foreign.removal import remove as remove_patiently
from local.stack_plan import ACCOUNTS, CONSOLE, KUBELETS, NAMESPACE, SERVICES, stack_id
from shared.api.schema.catalogue import KINDS
from shared.errors import ConfigurationError, NotFound, Unauthorized
from shared.kube.resources import (
    EC2_NODE_CLASSES,
    MACHINES,
    NAMESPACES,
    NODE_CLAIMS,
    NODES,
    PODS,
    Resource,
)
from tests.support.cluster.fixture import Cluster, connect

Object = dict[str, Any]

remove = partial(remove_patiently, namespace_seconds=0.3)


async def inventory(cluster: Cluster) -> dict[str, set[str]]:
    """Names by kind of all that a stack may create."""
    return {
        resource.kind: {o["metadata"]["name"] for o in (await cluster.kube.list(resource)).items}
        for resource in (*CREATED, NODES)
    }


async def put(cluster: Cluster, directory: Path, *, accept_any: bool = False) -> list[str]:
    heard: list[str] = []
    await prepare(cluster.kubeconfig, directory, accept_any=accept_any, progress=heard.append)
    return heard


def node(name: str, **labels: str) -> Object:
    return {
        "metadata": {"name": name, "labels": labels, "finalizers": ["karpenter.sh/termination"]}
    }


@pytest.mark.slow
async def test_what_was_put_there_goes_and_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.kube.create(NODES, node("mine"))
    before = await inventory(cluster)
    await put(cluster, tmp_path)
    assert len((await inventory(cluster))["CustomResourceDefinition"]) == len(KINDS)
    own = stack_id(tmp_path)
    await cluster.kube.create(NODES, node("played", **{"local.dovetail.sh/stack": own}))
    pod = {
        "metadata": {"name": "on-it", "namespace": cluster.namespace},
        "spec": {"nodeName": "played", "containers": [{"name": "a", "image": "b"}]},
    }
    await cluster.kube.create(PODS, pod)
    left = {"name": "left", "finalizers": ["karpenter.sh/termination"]}
    await cluster.kube.create(MACHINES, {"metadata": left, "spec": {"requirements": []}})

    gone = await remove(cluster.kubeconfig, own)

    assert await inventory(cluster) == before
    assert {"Pod", "Node", "Machine", "Namespace", "ClusterRole"} <= set(gone)
    with pytest.raises(NotFound):
        await cluster.kube.get(PODS, "on-it", cluster.namespace)
    assert await remove(cluster.kubeconfig, own) == []


async def test_each_service_gets_a_token_of_its_own_account(
    cluster: Cluster, tmp_path: Path
) -> None:
    await put(cluster, tmp_path)
    accounts = tmp_path / ACCOUNTS / NAMESPACE
    assert {path.name for path in accounts.iterdir()} == {
        KUBELETS,
        *(f"dovetail-{service}" for service in (*SERVICES, CONSOLE)),
    }
    kube = await connect(accounts / "dovetail-interruption")
    await kube.list(NODES)
    with pytest.raises(Unauthorized, match="system:serviceaccount:dovetail:dovetail-interruption"):
        await kube.list(SERVICE_ACCOUNTS)
    await kube.close()


async def test_a_second_start_in_the_same_directory_renews_what_a_killed_one_left(
    cluster: Cluster, tmp_path: Path
) -> None:
    await put(cluster, tmp_path)
    first = await inventory(cluster)
    heard = await put(cluster, tmp_path)
    assert await inventory(cluster) == first
    assert not [text for text in heard if "stays as it is" in text]


@pytest.mark.slow
async def test_definitions_that_were_there_stay_but_without_our_finalizers(
    cluster: Cluster, tmp_path: Path
) -> None:
    await put(cluster, tmp_path / "a")
    for definition in (await cluster.kube.list(CRDS)).items:
        unmarked = {"metadata": {"labels": {"local.dovetail.sh/stack": None}}}
        await cluster.kube.patch(CRDS, definition["metadata"]["name"], unmarked)
    await remove(cluster.kubeconfig)
    mine = {
        "metadata": {"name": "mine", "finalizers": ["karpenter.k8s.aws/termination", "a.b/c"]},
        "spec": {"role": "r", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                 "subnetSelectorTerms": [{"id": "subnet-0123"}],
                 "securityGroupSelectorTerms": [{"id": "sg-0123"}]},
    }  # fmt: skip
    heard = await put(cluster, tmp_path / "b")
    assert "nodepools.karpenter.sh" in heard[-1]
    await cluster.kube.create(EC2_NODE_CLASSES, mine)

    await remove(cluster.kubeconfig, stack_id(tmp_path / "b"))

    assert len((await inventory(cluster))["CustomResourceDefinition"]) == len(KINDS)
    found = await cluster.kube.get(EC2_NODE_CLASSES, "mine")
    assert found["metadata"]["finalizers"] == ["a.b/c"]


async def refused(cluster: Cluster, directory: Path, **options: Any) -> str:
    """The refusal, after which nothing was created."""
    before = await inventory(cluster)
    with pytest.raises(ConfigurationError) as caught:
        await put(cluster, directory, **options)
    assert await inventory(cluster) == before
    return caught.value.message


async def test_a_cluster_with_machines_of_a_cloud_needs_a_yes(
    cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.kube.create(NODES, node("real") | {"spec": {"providerID": "aws:///a/i-1"}})
    assert "--yes-this-cluster" in await refused(cluster, tmp_path)
    await put(cluster, tmp_path, accept_any=True)


async def test_a_stack_of_another_directory_is_named(cluster: Cluster, tmp_path: Path) -> None:
    await put(cluster, tmp_path / "a")
    said = await refused(cluster, tmp_path / "b")
    assert f"dovetail down --directory {tmp_path / 'a'}" in said


async def test_a_deployed_dovetail_is_not_joined_by_a_second(
    cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }
    deployment = {
        "metadata": {"name": "dovetail-watcher"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    await cluster.kube.create(DEPLOYMENTS, deployment, NAMESPACE)
    assert "Dovetail is deployed" in await refused(cluster, tmp_path, accept_any=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [MACHINES, NODE_CLAIMS])
async def test_another_autoscaler_is_not_joined(
    cluster: Cluster, tmp_path: Path, kind: Resource
) -> None:
    await put(cluster, tmp_path / "a")
    for definition in (await cluster.kube.list(CRDS)).items:
        unmarked = {"metadata": {"labels": {"local.dovetail.sh/stack": None}}}
        await cluster.kube.patch(CRDS, definition["metadata"]["name"], unmarked)
    await remove(cluster.kubeconfig)
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}
    spec: Object = {"requirements": []}
    if kind is NODE_CLAIMS:
        spec["nodeClassRef"] = ref
    await cluster.kube.create(kind, {"metadata": {"name": "theirs"}, "spec": spec})
    assert "another autoscaler runs" in await refused(cluster, tmp_path / "b", accept_any=True)


async def test_a_user_without_administrator_rights_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    await put(cluster, tmp_path / "a")
    account = tmp_path / "a" / ACCOUNTS / NAMESPACE / "dovetail-watcher"
    with pytest.raises(ConfigurationError, match="kubeconfig of an administrator"):
        await prepare(account, tmp_path / "b", accept_any=True)


@pytest.mark.slow
async def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match=r"http://127.0.0.1:9 gave no usable answer"):
        await prepare(tmp_path / "kubeconfig", tmp_path / "a", accept_any=False)
