"""The assembled cluster: HTTP, kubeconfig, start from files, and a quick end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
import yaml

from local.cluster.cluster import running_cluster
from local.cluster.settings import ClusterSettings
from shared.errors import ConfigurationError
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]


async def test_a_running_cluster_answers_over_http_and_runs_pods(tmp_path: Path) -> None:
    settings = ClusterSettings(
        kubeconfig_out=tmp_path / "config", pod_start_seconds=0.01, addons="none"
    )
    async with running_cluster(settings) as cluster, aiohttp.ClientSession(cluster.url) as client:
        written = yaml.safe_load((tmp_path / "config").read_text())
        assert written["clusters"][0]["cluster"]["server"] == cluster.url
        container = {"name": "c", "image": "x"}
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
        async with client.post("/api/v1/namespaces/default/pods", json=pod) as answer:
            assert answer.status == 201

        async def runs() -> bool:
            async with client.get("/api/v1/namespaces/default/pods/p") as answer:
                return bool((await answer.json())["status"].get("phase") == "Running")

        await wait_until(runs, "the pod runs")


async def test_files_of_a_folder_are_created_definitions_first(tmp_path: Path) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(widget))
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(definition))
    async with running_cluster(ClusterSettings(crd_directory=tmp_path)) as cluster:
        assert cluster.store.find("widgets", "w", group="example.com") is not None


async def test_an_unknown_kind_stops_the_start_and_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("apiVersion: example.com/v1\nkind: Odd\nmetadata: {}\n")
    with pytest.raises(ConfigurationError, match=r"odd\.yaml: no kind Odd"):
        async with running_cluster(ClusterSettings(crd_directory=tmp_path)):
            pass


def run_module(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "local.cluster", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_help_lists_every_setting() -> None:
    output, _ = run_module("--help").communicate(timeout=60)
    assert all(name.upper() in output for name in ClusterSettings.model_fields)


@pytest.mark.slow
def test_a_wrong_setting_is_named() -> None:
    process = run_module(CLUSTER_PORT="many")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "CLUSTER_PORT" in errors


@pytest.mark.slow
async def test_sigterm_ends_it_though_a_watch_is_open(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    process = run_module(KUBECONFIG_OUT=str(kubeconfig))
    try:
        await wait_until(lambda: kubeconfig.exists() and kubeconfig.read_text(), "it is up")
        url = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        async with (
            aiohttp.ClientSession(url) as client,
            client.get("/api/v1/pods?watch=true") as watch,
        ):
            assert watch.status == 200
            process.send_signal(signal.SIGTERM)
            await wait_until(lambda: process.poll() is not None, "it ended")
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


ACCOUNTS = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: robots}
---
apiVersion: v1
kind: Namespace
metadata: {name: robots}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: robot}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: robot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: robot}
subjects: [{kind: ServiceAccount, name: robot, namespace: robots}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: robot, namespace: robots}
"""


async def test_each_account_gets_a_kubeconfig_that_a_restart_leaves_as_it_is(
    tmp_path: Path,
) -> None:
    manifests, kubeconfigs = tmp_path / "manifests", tmp_path / "accounts"
    manifests.mkdir()
    (manifests / "robot.yaml").write_text(ACCOUNTS)
    settings = ClusterSettings(accounts_directory=manifests, account_kubeconfigs=kubeconfigs)
    tokens = []
    for _ in range(2):
        async with running_cluster(settings) as cluster:
            path = kubeconfigs / "robots" / "robot"
            config = yaml.safe_load(path.read_text())
            assert config["clusters"][0]["cluster"]["server"] == cluster.url
            assert path.stat().st_mode & 0o077 == 0
            tokens.append(config["users"][0]["user"]["token"])
            headers = {"Authorization": f"Bearer {tokens[0]}"}
            assert cluster.store.list("deployments", group="apps", namespace="robots") == []
            async with aiohttp.ClientSession(cluster.url, headers=headers) as client:
                assert (await client.get("/api/v1/nodes")).status == 200
                assert (await client.get("/api/v1/pods")).status == 403
    assert tokens[0] == tokens[1]
