"""``dovetail plan --against TIME``: changed pools against the recorded cluster of that time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.decisions.plan.recorded_cluster import is_moment
from cli.main import commands
from shared.concurrency.clock import rfc3339
from shared.errors import ConfigurationError, NotFound
from shared.runtime.archive.store import DirectoryStore
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import Day

LATER = rfc3339(NOW + 2000)


def provisioner(**spec: Any) -> dict[str, Any]:
    """The pool of the made day, as a manifest."""
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "default"},
        "spec": {"providerRef": {"name": "default"}, **spec},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("planned")
    asyncio.run(Day(DirectoryStore(made), 3).run(40))
    return made


def plan(folder: Path, *manifests: dict[str, Any], at: str = LATER) -> Result:
    words = ["plan", "-f", "-", "--against", at, "--store", str(folder), "-o", "json"]
    return CliRunner().invoke(commands, words, input=yaml.safe_dump_all(manifests))


def test_consolidation_that_is_switched_on_would_have_removed_machines(folder: Path) -> None:
    done = plan(folder, provisioner(consolidation={"enabled": True}))
    assert done.exit_code == 2, done.output
    found = json.loads(done.stdout)
    (change,) = found["changes"]
    assert change["object"] == "Provisioner/default"
    assert "consolidate_after_seconds" in change["fields"]
    assert found["machines"]
    assert found["cost"]["change"] < 0


def test_another_time_has_other_machines(folder: Path) -> None:
    pool = provisioner(consolidation={"enabled": True})
    early, late = (
        json.loads(plan(folder, pool, at=at).stdout)["cost"]["now"]
        for at in (rfc3339(NOW + 200), LATER)
    )
    assert 0 < early < late


def test_other_kinds_and_times_without_records_say_the_next_step(folder: Path) -> None:
    kind = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate"}
    node_class = {**kind, "metadata": {"name": "x"}, "spec": {}}
    error = plan(folder, provisioner(), node_class).exception
    assert isinstance(error, ConfigurationError)
    assert "not AWSNodeTemplate: save the cluster by kubectl get" in str(error)
    assert isinstance(plan(folder, provisioner(), at=rfc3339(NOW - 1)).exception, NotFound)


def test_a_file_that_looks_like_a_time_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_moment(["2h"])
    (tmp_path / "2h").write_text("")
    assert not is_moment(["2h"])
    assert not is_moment(["cluster.yaml"])
    assert not is_moment(["2h", "3h"])
