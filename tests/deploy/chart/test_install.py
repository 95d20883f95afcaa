"""Helm itself against an API server: install, change, roll back, take over plain manifests, remove."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.rendering import helm
from local.cluster.kubeconfig import write_kubeconfig
from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from tests.support.cluster.helm import CHART, CRDS, NEEDS_HELM, OUR_KINDS, REQUIRED
from tests.support.cluster.kubectl import NEEDS_KUBECTL, Kubectl, served

# Nightly, as are the commands of the page (tests/docs/test_block_runs.py).
pytestmark = [pytest.mark.nightly, NEEDS_HELM, NEEDS_KUBECTL]
NAMESPACE = "dovetail"


class Server:
    """An API server without anything, and Helm and kubectl for it."""

    def __init__(self, kubectl: Kubectl, folder: Path) -> None:
        self.kubectl = kubectl
        self.values = folder / "values.yaml"
        self.values.write_text(yaml.safe_dump(REQUIRED))

    async def helm(self, *words: str) -> str:
        place = ("--kubeconfig", str(self.kubectl.config), "--namespace", NAMESPACE)
        return await asyncio.to_thread(helm.helm, *words, *place)

    async def release(self, verb: str, *options: str) -> str:
        values = ("--values", str(self.values))
        return await self.helm(verb, "dovetail", str(CHART), *values, *options)

    async def objects(self, kinds: str) -> list[dict[str, Any]]:
        code, text = await self.kubectl("get", kinds, "-n", NAMESPACE, "-o", "json")
        assert code == 0, text
        return list(json.loads(text)["items"])

    async def named(self, kind: str) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in await self.objects(kind)}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    store = Store(SystemClock(), random.Random(7))
    async with served(store) as url:
        write_kubeconfig(tmp_path / "kubeconfig", url)
        yield Server(Kubectl.for_server(url, tmp_path), tmp_path)


async def test_a_release_is_installed_changed_rolled_back_and_removed(server: Server) -> None:
    await server.helm("install", "dovetail-crds", str(CRDS), "--create-namespace")
    notes = await server.release("install")
    assert "dovetail secrets --cluster-name blue --namespace dovetail" in notes
    assert "--service-account dovetail-launcher" in notes
    before = await server.named("deployments")
    assert before["dovetail-scheduler"]["spec"]["replicas"] == 2
    assert {*await server.named("pdb")} == {"dovetail-watcher", "dovetail-scheduler"}

    await server.release("upgrade", "--set", "scheduler.replicas=1,settings.LOG_LEVEL=debug")
    after = await server.named("deployments")
    assert after["dovetail-scheduler"]["spec"]["replicas"] == 1
    assert (await server.named("configmaps"))["dovetail"]["data"]["LOG_LEVEL"] == "debug"
    assert {*await server.named("pdb")} == {"dovetail-watcher"}
    templates = [one["dovetail-watcher"]["spec"]["template"] for one in (before, after)]
    assert templates[0] != templates[1], "pods restart when settings change"

    await server.helm("rollback", "dovetail", "1")
    again = await server.named("deployments")
    assert again["dovetail-watcher"]["spec"]["template"] == templates[0]

    await server.helm("uninstall", "dovetail", "dovetail-crds")
    assert await server.objects("deployments,services,roles,networkpolicies,pdb") == []
    _, kinds = await server.kubectl("get", "crd", "-o", "name")
    assert {one.partition("/")[2] for one in kinds.splitlines()} == OUR_KINDS


async def test_plain_manifests_become_a_release_without_a_new_selector(server: Server) -> None:
    """docs/operating/helm.md: objects of the same names are taken over, not made anew."""
    code, said = await server.kubectl("apply", "-k", str(CHART.parent))
    assert code == 0, said
    before = await server.named("deployments")
    await server.helm("install", "dovetail-crds", str(CRDS), "--take-ownership")
    await server.release("install", "--take-ownership")
    after = await server.named("deployments")
    uids = [
        {name: one["metadata"]["uid"] for name, one in found.items()} for found in (before, after)
    ]
    assert uids[0] == uids[1]
    labels = after["dovetail-watcher"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "Helm"
