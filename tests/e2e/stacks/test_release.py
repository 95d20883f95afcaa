"""docs/operating/helm.md up to nodes: Helm installs, and the pods run their commands with the rights of the release."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cli.demo.display import Display
from cli.demo.scenarios import SCENARIOS
from cli.demo.story import play
from shared.concurrency.clock import SystemClock
from tests.support.cluster.helm import NEEDS_HELM, OUR_KINDS
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import DEMO
from tests.support.stories.release import Release, release_servers

# Nightly: the plain manifests, which every other stack runs under, are the same templates.
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    NEEDS_KUBECTL,
    NEEDS_HELM,
]
PODS = 20
REPLICAS = {
    "watcher": 2,
    "scheduler": 2,
    "launcher": 1,
    "terminator": 1,
    "interruption": 1,
    "console": 1,
}


async def test_a_release_gets_nodes_for_pods_with_the_rights_of_its_own_accounts(
    tmp_path: Path,
) -> None:
    """RBAC-01..RBAC-03, in a namespace of another name than that of the plain manifests."""
    with release_servers(tmp_path) as release:
        notes = release.install()
        assert "dovetail secrets --cluster-name dovetail-local --namespace platform" in notes
        with release.running_pods() as parts:
            assert sorted(part.name for part in parts) == sorted(
                f"{name}-{number}" for name, count in REPLICAS.items() for number in range(count)
            )
            scenario = replace(SCENARIOS["nodepool"], pods=PODS)
            display = Display(Console(file=io.StringIO()))
            report = await play(scenario, DEMO, release.environment, display, SystemClock())
            assert report.ok, report.failure
            leases = {one["metadata"]["name"] for one in release.objects("leases")}
            assert leases == {f"karpenter-leader-election-{n}" for n in ("watcher", "scheduler")}
        assert release.forbidden() == []
        assert await release.refused_by_redis() == []
        logs = (tmp_path / "pods" / "logs").glob("*.log")
        assert not [log.name for log in logs if "UnauthorizedOperation" in log.read_text()]
        uninstalled(release)


def uninstalled(release: Release) -> None:
    """The kinds stay, and so would all machines."""
    release.helm("uninstall", "dovetail", "dovetail-crds")
    left = ("deployments", "services", "serviceaccounts", "roles", "networkpolicies", "configmaps")
    for kind in left:
        names = {one["metadata"]["name"] for one in release.objects(kind)}
        assert not [name for name in names if name.startswith("dovetail")], kind
    kinds = release.kubectl("get", "crd", "-o", "name").splitlines()
    assert {one.partition("/")[2] for one in kinds} == OUR_KINDS
