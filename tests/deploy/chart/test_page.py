"""docs/operating/helm.md: its commands, copied in their order, on a cluster; its lists beside the files they repeat."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.generate_manifests import PAGE, REPOSITORY
from local.cluster.cluster import running_cluster
from local.cluster.settings import ClusterSettings
from tests.support.cluster.helm import NEEDS_HELM, REQUIRED
from tests.support.cluster.kubectl import NEEDS_KUBECTL

TEXT = (REPOSITORY / PAGE).read_text()
BLOCKS = re.findall(r"(?ms)^```sh\n(.*?)^```$", TEXT)
ELSEWHERE = ("docker ", "aws ", "pip ")
"""Programs for which there is no registry and no account here; the tests of the wheel install Dovetail."""
SECONDS = 240


def test_the_roles_have_the_policies_of_their_services() -> None:
    stated = {one: words.split() for one, words in re.findall(r"(?m)^role (\w+) (.*)$", TEXT)}
    wanted = json.loads((REPOSITORY / "deploy" / "iam" / "roles.json").read_text())
    assert stated == {name: wanted[name] for name in ("launcher", "terminator", "interruption")}


@NEEDS_HELM
@NEEDS_KUBECTL
@pytest.mark.timeout(300)
@pytest.mark.nightly
async def test_its_commands_install_change_and_remove_a_release(tmp_path: Path) -> None:
    """Step by step as a new user copies them; each must succeed."""
    (tmp_path / "deploy").symlink_to(REPOSITORY / "deploy")
    (tmp_path / "my-values.yaml").write_text(yaml.safe_dump(REQUIRED))
    copied = [block for block in BLOCKS if not any(word in block for word in ELSEWHERE)]
    assert len(copied) >= 7
    settings = ClusterSettings(
        fixed_nodes=2, pod_start_seconds=0.05, kubeconfig_out=tmp_path / "kubeconfig"
    )
    async with running_cluster(settings):
        done = await asyncio.to_thread(copy, copied, tmp_path)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    for said in (
        'deployment "dovetail-scheduler" successfully rolled out',
        'Release "dovetail" has been upgraded',
        "Rollback was a success",
        'release "dovetail" uninstalled',
        "nodepools.karpenter.sh",  # the kinds were kept
    ):
        assert said in done.stdout


def copy(blocks: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    programs = Path(sys.executable).parent
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "KUBECONFIG": str(folder / "kubeconfig"),
        "IMAGE": "registry.example.com/dovetail",
        "TAG": "1",
    }
    script = "set -euxo pipefail\n" + "\n".join(blocks)
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, timeout=SECONDS,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
