"""``dovetail migrate karpenter``: the report, and the steps on an API server (MAP-06)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import commands
from cli.migration.handover import Handover, is_adopted, without_our_hashes
from cli.migration.inventory import DEPLOYMENTS, Inventory, read_cluster, sorted_in
from cli.migration.karpenter import carried_out
from cli.migration.report import Row, missing_tags, report_of
from shared.api.hashes import METHOD
from shared.cloud.ec2.records import Instance
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.errors import ConfigurationError, Unavailable
from shared.kube.resources import NODE_POOLS
from tests.services.conftest import CRDS, our_definitions
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig

PROVIDER_ID = "aws:///us-west-2a/i-0123456789abcdef0"
HASHES = {keys.POOL_HASH: "1", keys.POOL_HASH_VERSION: "v3"}


def pool(name: str = "default", **annotations: str) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": spec}


def claim(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    registered = {"type": "Registered", "status": "True"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "default-a", "labels": {keys.NODE_POOL: "default"}, **metadata},
        "spec": {"nodeClassRef": {"name": "default"}},
        "status": {"providerID": PROVIDER_ID, "conditions": [registered], **(status or {})},
    }


def node(**changes: Any) -> dict[str, Any]:
    metadata = {"name": "node-a", "finalizers": [keys.FINALIZER], "resourceVersion": "1"}
    spec = {"providerID": PROVIDER_ID, "taints": []}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {**spec, **changes}}


def instance(state: str = "running", **tags: str) -> Instance:
    return Instance(
        id="i-0123456789abcdef0", instance_type="m5.large", zone="us-west-2a", capacity_type="on-demand",
        image_id="ami-1", state=state, launched_at=0.0, private_dns_name="node-a", tags=tags,
        subnet_id="subnet-1", security_group_ids=(),
    )  # fmt: skip


def cluster_of(*documents: dict[str, Any], instances: list[Instance] | None = None) -> Inventory:
    found = sorted_in(documents)
    found.live = True
    if instances is not None:
        found.instances = {one.id: one for one in instances}
    return found


def rows(*documents: dict[str, Any], instances: list[Instance] | None = None) -> list[Row]:
    return report_of(cluster_of(*documents, instances=instances), "demo")


def blocks(*documents: dict[str, Any], instances: list[Instance] | None = None) -> list[str]:
    return [row.text for row in rows(*documents, instances=instances) if row.verdict == "blocks"]


def test_a_claim_with_node_and_pool_is_kept() -> None:
    found = [row for row in rows(pool(), claim(), node()) if row.object == "NodeClaim/default-a"]
    assert [(row.verdict, row.text) for row in found] == [("kept", "node and instance stay as they are")]  # fmt: skip


@pytest.mark.parametrize(
    ("documents", "text"),
    [
        ((pool(), claim({"providerID": ""})), "it has no instance yet"),
        ((pool(), claim()), "its node is gone"),
        (({**pool(), "spec": {}},), "is required"),
    ],
)
def test_what_blocks_the_handover(documents: tuple[dict[str, Any], ...], text: str) -> None:
    assert any(one.startswith(text) for one in blocks(*documents)), blocks(*documents)


@pytest.mark.parametrize("known", [[], [instance("terminated")]])
def test_a_claim_without_its_instance_blocks(known: list[Instance]) -> None:
    assert "its instance is" in blocks(pool(), claim(), node(), instances=known)[0]


def test_v1beta1_of_a_cluster_blocks_and_says_what_to_do() -> None:
    old = {**pool(), "apiVersion": "karpenter.sh/v1beta1"}
    old["spec"] = {"template": {"spec": {"requirements": [], "nodeClassRef": {"name": "default"}}}}
    assert "dovetail convert --to v1" in blocks(old)[0]


def test_a_deletion_that_began_is_completed() -> None:
    leaving = claim({"providerID": ""}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert blocks(pool(), leaving) == []


def test_tags_that_an_older_karpenter_did_not_set_are_added() -> None:
    lacking = missing_tags(claim(), instance(**{keys.NODE_POOL: "default"}), "demo")
    assert lacking == {
        "eks:eks-cluster-name": "demo",
        "kubernetes.io/cluster/demo": "owned",
        keys.NODE_CLASS: "default",
        keys.NODE_CLAIM_TAG: "default-a",
    }
    assert missing_tags({**claim(), "kind": "Machine"}, instance(), "demo") == {}


def test_settings_that_karpenter_1_0_kept_in_annotations_are_named() -> None:
    name = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
    (row,) = [one for one in rows(pool(**{name: '{"maxPods":5}'})) if one.subject == name]
    assert row.verdict == "by hand"
    assert row.text.endswith('spec.kubelet of the EC2NodeClass: {"maxPods":5}')


def test_hashes_change_without_drift() -> None:
    assert "this is not drift" in str([row.text for row in rows(pool(**HASHES))])


def test_the_variables_of_its_deployment_are_compared_with_the_settings() -> None:
    names = ("BATCH_IDLE_DURATION", "KARPENTER_SERVICE", "METRICS_PORT", "SOMETHING_ELSE")
    container = {"name": "c", "env": [{"name": name, "value": "8"} for name in names]}
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "karpenter"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }  # fmt: skip
    assert {row.subject: row.verdict for row in rows(deployment)} == {
        "BATCH_IDLE_DURATION": "kept", "KARPENTER_SERVICE": "changed", "METRICS_PORT": "changed",
        "SOMETHING_ELSE": "by hand",
    }  # fmt: skip


def test_only_hashes_of_dovetail_are_taken_off() -> None:
    assert without_our_hashes(pool(**HASHES)) == {}
    ours = pool(**HASHES, **{keys.HASHED_BY: METHOD, "a": "b"})
    assert without_our_hashes(ours).keys() == {*HASHES, keys.HASHED_BY}


def test_a_claim_is_adopted_when_nothing_of_karpenter_decides_its_drift() -> None:
    drifted = {"conditions": [{"type": "Drifted", "status": "True"}]}
    assert not is_adopted(claim(annotations=HASHES))
    assert is_adopted(claim(annotations={keys.HASHED_BY: METHOD}))
    assert is_adopted(claim(drifted))


def run(*words: str) -> Any:
    return CliRunner().invoke(commands, ["migrate", "karpenter", *words])


def test_files_are_reported_as_json(tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text(yaml.safe_dump(pool(**HASHES)))
    done = run("-f", str(path), "-o", "json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["blocks"]) == (0, 0)
    assert {row["object"] for row in answer["rows"]} == {"NodePool/default"}


def test_files_without_anything_of_karpenter_are_no_report(tmp_path: Path) -> None:
    """Its last line would be that nothing blocks the handover."""
    path = tmp_path / "other.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    done = run("-f", str(path))
    assert isinstance(done.exception, ConfigurationError)
    assert done.exception.message.startswith("no NodePool, Provisioner, ")


def test_files_cannot_be_taken_over(tmp_path: Path) -> None:
    done = run("-f", str(tmp_path), "--apply")
    assert isinstance(done.exception, ConfigurationError)


async def prepared(kubeconfig: Path) -> None:
    kube = await connect(kubeconfig)
    for definition in our_definitions():
        await kube.create(CRDS, definition)
    await kube.create(NODE_POOLS, pool(**HASHES))
    await kube.create(DEPLOYMENTS, karpenter_deployment(), "kube-system")
    await kube.close()


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The shell's variables name an API server with a pool and Karpenter's Deployment."""
    with embedded_api_server() as url:
        path = write_kubeconfig(tmp_path / "kubeconfig", url)
        asyncio.run(prepared(path))
        monkeypatch.setenv("KUBECONFIG", str(path))
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "DOVETAIL_DIRECTORY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(tmp_path)
        yield


def test_a_cluster_is_reported_and_nothing_is_changed(live: None) -> None:
    done = run()
    assert done.exit_code == 0, done.output
    assert "NodePool/default" in done.stdout
    assert "set AWS_REGION and CLUSTER_NAME" in done.stdout
    assert "Nothing blocks the handover" in done.stdout
    assert json.loads(run("-o", "json", "--back").stdout)["blocks"] == 0


def test_a_wrong_pool_is_refused_with_those_that_exist(live: None) -> None:
    done = run("--apply", "--pool", "NodePool/none")
    assert isinstance(done.exception, ConfigurationError)
    assert "pools are: NodePool/default" in str(done.exception)


def test_a_pool_is_halted_again_by_the_way_back(live: None) -> None:
    assert (
        "no machine is disrupted" in run("--back", "--apply", "--pool", "NodePool/default").stdout
    )


def karpenter_deployment() -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "karpenter"}
    pod = {"containers": [{"name": "controller", "image": "karpenter"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "karpenter", "labels": labels}, "spec": spec}


async def test_what_blocks_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    with embedded_api_server() as url:
        kube = await connect(write_kubeconfig(tmp_path / "kubeconfig", url))
        for definition in our_definitions():
            await kube.create(CRDS, definition)
        await kube.create(NODE_POOLS, pool())
        handover = Handover(kube, SystemClock(), lambda _: None, wait_seconds=0.1)
        blocked = cluster_of(pool(), claim({"providerID": ""}))
        with pytest.raises(ConfigurationError, match="Nothing was changed"):
            await carried_out(handover, blocked, None, back=False, cluster="")
        stored = await kube.get(NODE_POOLS, "default")
        assert keys.DISRUPTION_ANNOTATION not in (stored["metadata"].get("annotations") or {})

        await kube.create(DEPLOYMENTS, karpenter_deployment(), "kube-system")
        with pytest.raises(Unavailable, match="Karpenter was started again"):
            await carried_out(handover, await read_cluster(kube), None, back=False, cluster="")
        assert (await kube.get(DEPLOYMENTS, "karpenter", "kube-system"))["spec"]["replicas"] == 2
        stored = await kube.get(NODE_POOLS, "default")
        assert stored["metadata"]["annotations"][keys.DISRUPTION_ANNOTATION] == "off"

        with pytest.raises(ConfigurationError, match="Dovetail does not lead"):
            await carried_out(handover, cluster_of(stored), stored, back=False, cluster="")

        await carried_out(handover, cluster_of(stored), None, back=True, cluster="")
        stored = await kube.get(NODE_POOLS, "default")
        assert keys.DISRUPTION_ANNOTATION not in (stored["metadata"].get("annotations") or {})
        await kube.close()
