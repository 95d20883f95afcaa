"""deploy/beside-karpenter: every service that acts may hold Karpenter's Lease, and no other."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from cli.migration.inventory import DEFAULT_NAMESPACE, LEASE_NAME
from local.stack_plan import SERVICES
from shared.runtime.environment import READERS
from tests.support.cluster.kubectl import NEEDS_KUBECTL

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / "deploy" / "beside-karpenter"


def test_the_services_that_act_have_the_right_to_this_one_lease() -> None:
    role, binding = yaml.safe_load_all((FOLDER / "rights.yaml").read_text())
    assert {one["metadata"]["namespace"] for one in (role, binding)} == {DEFAULT_NAMESPACE}
    created, held = role["rules"]
    assert created["verbs"] == ["create"]
    assert (held["resourceNames"], held["verbs"]) == ([LEASE_NAME], ["get", "update"])
    names = {subject["name"] for subject in binding["subjects"]}
    assert names == {f"dovetail-{one}" for one in SERVICES if one not in READERS}


@pytest.mark.slow
@NEEDS_KUBECTL
def test_the_component_sets_the_lease_for_all_services(tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "deploy", tmp_path / "deploy")
    overlay = {"resources": ["deploy"], "components": ["deploy/beside-karpenter"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    done = subprocess.run(
        ["kubectl", "kustomize", tmp_path], capture_output=True, text=True, check=True
    )
    found = {
        one["metadata"]["namespace"]: one["data"].get("KARPENTER_LEASE")
        for one in yaml.safe_load_all(done.stdout)
        if one["kind"] == "ConfigMap"
    }
    assert found.pop("dovetail") == f"{DEFAULT_NAMESPACE}/{LEASE_NAME}"
    assert not any(found.values()), (
        "agents on nodes without a pool have nothing to do with Karpenter"
    )
