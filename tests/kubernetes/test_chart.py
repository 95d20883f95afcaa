"""Helm on a real API server: every object of the chart is taken, and a second time nothing changes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster.helm import (
    CHART,
    CRDS,
    MATRIX,
    NEEDS_HELM,
    OUR_KINDS,
    REQUIRED,
    rendered,
)
from tests.support.real_cluster.control_plane import ControlPlane
from tests.support.real_cluster.stack import deploy
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kubernetes, NEEDS_HELM]
NAMESPACE = "platform"
REPLICAS = 9
"""Of the services, the console and Redis."""
NEEDS_THE_OPERATOR = {"monitoring"}


class Releases:
    """Helm for one control plane, in a namespace that admits restricted pods alone."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.values = folder / "values.yaml"
        self.values.write_text(yaml.safe_dump(REQUIRED))

    def helm(self, *words: str) -> str:
        place = ("--kubeconfig", str(self.plane.kubeconfig), "--namespace", NAMESPACE)
        done = subprocess.run(
            ["helm", *words, *place], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def items(self, kind: str) -> list[dict[str, Any]]:
        found = self.plane.kubectl("get", kind, "-n", NAMESPACE, "-o", "json")
        return list(json.loads(found)["items"])


@pytest.fixture
def releases(deployed: ControlPlane, tmp_path: Path) -> Iterator[Releases]:
    """In a namespace of their own. They take the cluster-wide objects of the plain manifests over, which come back."""
    # The one of the test before may still be on its way out; where there is none the wait fails at once.
    gone = ("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=120s")
    deployed.kubectl(*gone, check=False)
    deployed.kubectl("create", "namespace", NAMESPACE)
    label = "pod-security.kubernetes.io/enforce=restricted"
    deployed.kubectl("label", "namespace", NAMESPACE, label)
    yield Releases(deployed, tmp_path)
    deployed.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    deploy(deployed)


async def test_a_release_is_admitted_and_an_upgrade_with_the_same_values_changes_nothing(
    releases: Releases,
) -> None:
    releases.helm("install", "dovetail-crds", str(CRDS), "--take-ownership")
    words = ("dovetail", str(CHART), "--values", str(releases.values))
    releases.helm("install", *words, "--take-ownership")

    def created() -> bool:
        found = releases.items("deployments")
        return bool(sum(one["status"].get("replicas", 0) for one in found) == REPLICAS)

    await wait_until(
        created,
        "a pod for every replica",
        every=1,
        show=lambda: releases.plane.kubectl("get", "events", "-n", NAMESPACE),
    )
    before = {d["metadata"]["name"]: d["metadata"]["generation"] for d in releases.items("deploy")}
    releases.helm("upgrade", *words)
    after = {d["metadata"]["name"]: d["metadata"]["generation"] for d in releases.items("deploy")}
    assert before == after
    releases.helm("uninstall", "dovetail", "dovetail-crds")
    kinds = releases.plane.kubectl("get", "crd", "-o", "name").splitlines()
    assert {one.partition("/")[2] for one in kinds} >= OUR_KINDS, (
        "objects of people need their kinds"
    )


@pytest.mark.parametrize("name", sorted(MATRIX.keys() - NEEDS_THE_OPERATOR))
def test_every_object_passes_the_server_s_own_checks(
    name: str, releases: Releases, tmp_path: Path
) -> None:
    """Server-side, strict, and without a trace."""
    objects = rendered(MATRIX[name], tmp_path, namespace=NAMESPACE)
    for one in objects:  # namespaces that the release makes are not there in a dry run
        if one["metadata"].get("namespace") not in (None, "kube-system"):
            one["metadata"]["namespace"] = NAMESPACE
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    words = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    said = releases.plane.kubectl(*words, "-f", "-", stdin=listed).splitlines()
    assert len(said) >= len({(o["kind"], o["metadata"]["name"]) for o in objects})
