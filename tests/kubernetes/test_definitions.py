"""Our definitions of kinds pass the checks of Kubernetes' own code, which our API server only estimates.

A real API server refuses a definition whose rules may cost too much; ``kubectl apply`` would fail for the whole kind.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "definitions"
CRDS = ROOT / "deploy" / "crds"
MOST_SECONDS = 900.0
"""Go compiles Kubernetes' packages the first time."""

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs Go, which builds the checks"),
]


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built from Kubernetes' packages."""
    built = tmp_path_factory.mktemp("definitions") / "check"
    command = ["go", "build", "-o", str(built), "."]
    done = subprocess.run(
        command, cwd=PROGRAM, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


def check(checker: Path, folder: Path) -> tuple[int, str]:
    """(exit code, a line for each fault)."""
    done = subprocess.run(
        [str(checker), str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_kubernetes_takes_all_definitions(checker: Path) -> None:
    assert check(checker, CRDS) == (0, "")


def test_kubernetes_refuses_a_rule_that_may_cost_too_much(checker: Path, tmp_path: Path) -> None:
    """So the check above can fail: every entry of a list without a bound is compared with every other one."""
    definition = yaml.safe_load((CRDS / "karpenter.sh_nodepools.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["names"] = {
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a.matches(b)))"}],
    }
    (tmp_path / "definition.yaml").write_text(yaml.safe_dump(definition))
    code, text = check(checker, tmp_path)
    assert code == 1
    assert "cost" in text
