"""The wheel works without a checkout, and the services without the extra `local`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.processes.clean_install import (
    PROJECT,
    SOURCES,
    Installation,
    built_wheel,
    empty_venv,
    installed,
)

VERSION = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
FOR_A_CHECKOUT = {"deploy/compose/env", "deploy/compose/kubeconfig"}
"""Of no use without one."""
IMPORT_ALL = """
import importlib, pkgutil, sys
def names(package):
    module = importlib.import_module(package)
    yield from (one.name for one in pkgutil.walk_packages(module.__path__, package + "."))
for name in [*names("services"), *names("shared")]:
    # The one module that needs the extra `tracing`; who imports it says so when that is missing.
    if not name.endswith(("__main__", "shared.runtime.tracing.otlp")):
        importlib.import_module(name)
print(len([name for name in sys.modules if name.startswith(("services.", "shared."))]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def services(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """`pip install dovetail`."""
    return installed(wheel, tmp_path_factory.mktemp("services") / "venv")


@pytest.fixture(scope="module")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """`pip install dovetail[local]`."""
    return installed(wheel, tmp_path_factory.mktemp("whole") / "venv", ["local"])


def test_it_holds_every_file_of_the_packages(wheel: Path) -> None:
    """By git, where the project is one: a file that nobody tracks is nobody's."""
    listed = subprocess.run(
        ["git", "ls-files", *SOURCES], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    tracked = set(listed.stdout.split()) - FOR_A_CHECKOUT
    if not tracked:
        pytest.skip("not a git checkout")
    with zipfile.ZipFile(wheel) as archive:
        assert sorted(tracked - set(archive.namelist())) == []


@pytest.mark.nightly
def test_it_holds_nothing_else_of_the_checkout(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert tops == {*SOURCES, f"dovetail-{VERSION}.dist-info"}


def test_the_version_is_that_of_pyproject(services: Installation) -> None:
    done = services.run("dovetail", "--version")
    assert (done.returncode, done.stdout) == (0, f"dovetail {VERSION}\n"), done.stderr


@pytest.mark.slow
def test_every_module_of_the_services_imports_without_the_extra(services: Installation) -> None:
    assert services.run("python", "-c", "import moto").returncode != 0
    done = services.run("python", "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400


def test_validate_works_without_the_extra(services: Installation) -> None:
    done = services.run("dovetail", "validate", "-f", str(PROJECT / "cli" / "demo" / "manifests"))
    assert done.returncode == 0, done.stderr
    assert "0 faults" in done.stdout


NEEDS_THE_EXTRA = {
    "up": ["--detach"],
    "demo": [],
    "convert": ["-f", ".", "--to", "v1"],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", NEEDS_THE_EXTRA)
def test_what_needs_the_extra_says_so_at_once(services: Installation, command: str) -> None:
    done = services.run("dovetail", command, *NEEDS_THE_EXTRA[command])
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "pip install 'dovetail[local]'" in done.stderr


@pytest.mark.slow
def test_simulate_finds_its_catalogue_in_the_package(whole: Installation) -> None:
    manifests = PROJECT / "cli" / "demo" / "manifests"
    done = whole.run("dovetail", "simulate", "-f", str(manifests), "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.nightly
def test_the_local_stack_finds_its_files_in_the_package(whole: Installation) -> None:
    """Definitions, accounts and rights, none of them in the checkout."""
    script = (
        "from pathlib import Path; from local.aws.iam.policies import IAM; "
        "from local.stack_plan import StackSettings, plan_stack; "
        "plan = plan_stack(StackSettings(Path('stack')), list(range(21000, 21008)), {}); "
        "(cluster,) = plan.waves[1]; "
        "print(IAM, cluster.environment['CRD_DIRECTORY'], cluster.environment['ACCOUNTS_DIRECTORY'])"
    )
    done = whole.run("python", "-c", script)
    assert done.returncode == 0, done.stderr
    assert [Path(one).is_relative_to(whole.folder) for one in done.stdout.split()] == 3 * [True]


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_demo_plays_from_what_pip_installs(wheel: Path, tmp_path: Path) -> None:
    """As `pipx run --spec 'dovetail[local]' dovetail demo`: from the package index, or from PIP_FIND_LINKS."""
    venv = empty_venv(tmp_path / "venv")
    pip = [sys.executable, "-m", "pip", "--python", str(venv.python), "install", "--quiet"]
    lock = ["--constraint", str(constraints(tmp_path))]
    subprocess.run([*pip, *lock, f"{wheel}[local]"], check=True, timeout=600, env=os.environ)
    report = tmp_path / "outcome.json"
    done = venv.run("dovetail", "demo", "--scenario", "burst-10", "--report", str(report), timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(report.read_text())["ok"] is True


def constraints(folder: Path) -> Path:
    """The pins of the lock without its hashes, which a wheel built here has none of."""
    lock = (PROJECT / "requirements-local.lock").read_text().splitlines()
    pins = [line.removesuffix(" \\") for line in lock if line[:1].isalnum()]
    path = folder / "constraints.txt"
    path.write_text("\n".join(pins))
    return path


def test_the_version_is_written_in_one_place() -> None:
    files = [path for folder in (*SOURCES, "bench") for path in (PROJECT / folder).rglob("*.py")]
    said = re.compile(rf"""[/"']{re.escape(VERSION)}["']""")
    assert [path for path in files if said.search(path.read_text())] == []
