"""``dovetail drill`` on a real API server: it simulates on any cluster, and sends notices where an emulator is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.drill import watch
from cli.drill.command import Selection, _drill, _emulator
from cli.main import commands
from local.cluster.storage.store import Store
from shared.domain import labels as keys
from shared.errors import ConfigurationError
from tests.services.conftest import CLASS_REF, Control, store_with_our_kinds
from tests.support.aws.emulator import spot_instance, whole_ec2
from tests.support.cluster.fixture import embedded_api_server, write_kubeconfig
from tests.support.cluster.local_cluster import LocalCluster

NOWHERE = "http://127.0.0.1:9"
ALL = Selection("*", "*", 100.0, 0, on_demand=False)


@pytest.fixture
def store() -> Store:
    """Two spot nodes of a pool; one pod of the first has room on the second."""
    made = store_with_our_kinds()
    template: dict[str, Any] = {"spec": {"requirements": [], "nodeClassRef": CLASS_REF}}
    pool = {"metadata": {"name": "default"}, "spec": {"template": template}}
    made.create("nodepools", pool, group="karpenter.sh")
    for name, zone in (("a", "us-east-1a"), ("b", "us-east-1b")):
        node(made, name, zone, f"i-{name}")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs"}
    owners = [{**owner, "controller": True}]
    LocalCluster(made).pod("web", spec={"nodeName": "a"}, owners=owners)
    return made


def node(store: Store, name: str, zone: str, instance: str) -> None:
    values = {
        keys.NODE_POOL: "default", keys.ZONE: zone, keys.CAPACITY_TYPE: "spot",
        keys.INSTANCE_TYPE: "m5.xlarge", keys.REGISTERED: "true", keys.INITIALIZED: "true",
    }  # fmt: skip
    LocalCluster(store).node(name, labels=values)
    store.patch("nodes", name, {"spec": {"providerID": f"aws:///{zone}/{instance}"}})


@pytest.fixture
def kubeconfig(store: Store, tmp_path: Path) -> Iterator[Path]:
    with embedded_api_server(store=store) as url:
        yield write_kubeconfig(tmp_path / "kubeconfig", url)


def drill(kubeconfig: Path, *words: str) -> Result:
    """Where no stack runs, in a shell that knows the cluster alone."""
    here = {"COLUMNS": "200", "DOVETAIL_DIRECTORY": str(kubeconfig.parent)}
    shell = {"KUBECONFIG": str(kubeconfig), "AWS_ENDPOINT_URL": "", "DOVETAIL_SCHEDULER_URL": ""}
    return CliRunner().invoke(commands, ["drill", *words], env={**here, **shell})


def test_a_cluster_without_an_emulator_is_simulated_and_not_changed(
    kubeconfig: Path, store: Store
) -> None:
    done = drill(kubeconfig, "--zone", "us-east-1a")
    assert done.exit_code == 0
    title, heading, row, *lines = done.stdout.strip().splitlines()
    assert title == "simulated: nothing was changed"
    assert heading.split()[:4] == ["NODE", "TYPE", "ZONE", "PODS"]
    assert row.split() == ["a", "m5.xlarge", "us-east-1a", "1", "-", "-"]
    assert lines == ["pods that would move: 1, without a place: 0"]
    assert store.find("nodes", "a") is not None


def test_a_pod_without_another_place_is_told_and_the_exit_code_is_1(
    kubeconfig: Path, store: Store
) -> None:
    spec = {"nodeName": "b", "nodeSelector": {"nowhere": "to-be-found"}}
    owner = {"apiVersion": "v1", "kind": "ReplicaSet", "name": "x", "uid": "u", "controller": True}
    LocalCluster(store).pod("picky", spec=spec, owners=[owner])
    done = drill(kubeconfig, "--zone", "us-east-1b", "-o", "json")
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert [one["pod"] for one in report["homeless"]] == ["default/picky"]


def test_when_no_node_matches_nothing_is_done(kubeconfig: Path) -> None:
    done = drill(kubeconfig, "--type", "c5.*")
    assert isinstance(done.exception, ConfigurationError)
    assert "type c5.*" in done.exception.message


async def test_on_the_local_stack_the_notice_is_sent_and_the_node_watched(
    kubeconfig: Path, store: Store, aws_emulator_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without pods the node is empty from the first look."""
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(watch, "PODS_RECREATED_SECONDS", 0.0)
    Control(aws_emulator_url).post("reset")
    async with whole_ec2(aws_emulator_url) as ec2:
        instance = await spot_instance(ec2, "dovetail-local")
    node(store, "c", "us-west-2a", instance)
    variables = {"KUBECONFIG": str(kubeconfig), "AWS_ENDPOINT_URL": aws_emulator_url}
    selection = Selection("us-west-2a", "*", 100.0, 0, on_demand=False)
    report = await _drill(variables, selection, simulate=False)
    assert (report["simulated"], report["stayed"]) == (False, [])
    assert [one["node"] for one in report["nodes"]] == ["c"]


async def test_a_notice_that_the_emulator_refuses_ends_the_drill(
    kubeconfig: Path, aws_emulator_url: str
) -> None:
    """It does not know the instances of these nodes: it must not look as if they had been interrupted."""
    variables = {"KUBECONFIG": str(kubeconfig), "AWS_ENDPOINT_URL": aws_emulator_url}
    with pytest.raises(ConfigurationError, match="i-a"):
        await _drill(variables, ALL, simulate=False)
    simulated = await _drill(variables, ALL, simulate=True)
    assert simulated["simulated"]


def test_an_emulator_is_only_what_answers_as_one(aws_emulator_url: str) -> None:
    """Variables of a real account must not make the drill send notices."""
    assert _emulator({}) is None
    assert _emulator({"AWS_ENDPOINT_URL": NOWHERE}) is None
    assert _emulator({"AWS_ENDPOINT_URL": aws_emulator_url}) is not None
