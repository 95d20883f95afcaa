"""The images, built and run by a Docker engine; skipped where there is none.

``RELEASE_BASE_IMAGE`` and ``RELEASE_BUILD_OPTIONS`` are those of ``make release``: for a network without a registry.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from local.stack_plan import CONSOLE, SERVICES
from release.artefacts.images import ImageBuild, no_engine

PROJECT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
MEGABYTE = 1_000_000
MOST_BYTES = 150 * MEGABYTE
"""Of an image on a node. It downloads less: the layers are compressed."""
CLOSED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--network", "none")
ROLES = (*SERVICES, CONSOLE)


@pytest.fixture(scope="module", autouse=True)
def engine() -> None:
    if reason := no_engine():
        pytest.skip(reason)


@cache
def built(target: str) -> str:
    """The name of the image of a target."""
    build = ImageBuild(
        PROJECT, "test", "test", 1_700_000_000,
        base=os.environ.get("RELEASE_BASE_IMAGE", ""),
        options=os.environ.get("RELEASE_BUILD_OPTIONS", "").split(),
    )  # fmt: skip
    docker(*build.command(target, ["--load"])[1:])
    return build.name(target)


def docker(*words: str, check: bool = True) -> str:
    done = subprocess.run(
        ["docker", *words], capture_output=True, text=True, timeout=1700, check=False
    )
    assert done.returncode == 0 or not check, done.stderr[-4000:]
    return done.stdout + done.stderr


def python(target: str, script: str) -> str:
    return docker("run", "--rm", *CLOSED, built(target), "python", "-c", script).strip()


def size(name: str) -> int:
    """Bytes of all files."""
    return int(docker("image", "inspect", "--format", "{{.Size}}", name))


@pytest.mark.parametrize("role", ROLES)
def test_an_image_of_a_service_starts_it_without_rights_and_is_small(role: str) -> None:
    """Its root is read-only, it has no capability, and it is nobody. The help is from the service's settings."""
    said = docker("run", "--rm", *CLOSED, built(role), "python", "-m", f"services.{role}", "--help")
    assert f"Dovetail: {role}." in said
    assert python(role, "import os; print(os.getuid(), os.getgid())") == "65532 65532"
    command = docker("image", "inspect", "--format", "{{json .Config.Cmd}}", built(role)).strip()
    assert command == f'["python","-m","services.{role}"]'
    assert size(built(role)) < MOST_BYTES


@pytest.mark.parametrize("role", ROLES)
def test_only_the_image_of_the_scheduler_contains_the_solver(role: str) -> None:
    script = "from importlib.util import find_spec; print(find_spec('numpy') is not None)"
    assert python(role, script) == str(role == "scheduler")


@pytest.mark.parametrize("role", ROLES)
def test_expressions_can_be_evaluated_where_they_are(role: str) -> None:
    script = "from importlib.util import find_spec; print(find_spec('cel') is not None)"
    assert python(role, script) == str(role in ("scheduler", "launcher"))


def test_the_launcher_evaluates_an_expression() -> None:
    script = "import cel; print(cel.evaluate('1 + 1'))"
    assert python("launcher", script) == "2"


def test_an_image_has_nothing_to_install_or_start_other_programs_with() -> None:
    script = (
        "import os; from importlib.util import find_spec; "
        "print([n for n in ('pip', 'setuptools', 'ensurepip', 'moto') if find_spec(n)], "
        "[d for d in ('/bin/sh', '/usr/bin/apt', '/usr/bin/dpkg') if os.path.exists(d)])"
    )
    assert python("services", script) == "[] []"


def test_an_image_trusts_the_usual_authorities_and_names_its_packages_to_scanners() -> None:
    script = (
        "import os, ssl; print(len(ssl.create_default_context().get_ca_certs()) > 50, "
        "{'libc6', 'ca-certificates'} <= set(os.listdir('/var/lib/dpkg/status.d')))"
    )
    assert python("watcher", script) == "True True"


def test_nothing_is_compiled_at_the_start() -> None:
    """An image is read-only: what has no bytecode would be compiled at every start of a container."""
    script = (
        "import os, sys, services.scheduler.service; "
        "cached = [getattr(m, '__cached__', None) or '' for m in sys.modules.values()]; "
        "print(len(cached) > 500, [c for c in cached if c and not os.path.exists(c)])"
    )
    assert python("scheduler", script) == "True []"


def test_the_whole_stack_starts_by_compose_and_ends(tmp_path: Path) -> None:
    """docker-compose.yml with the image built here: every part gets healthy, and `dovetail status` sees all of them."""
    docker("tag", built("local"), "dovetail:local")
    compose = ("compose", "--project-directory", str(PROJECT), "--project-name", "dovetail-test")
    try:
        docker(*compose, "up", "--no-build", "--detach", "--wait")
        said = docker(*compose, "run", "--rm", "dovetail", "status")
        assert all(f"{role} " in said for role in ROLES)
    finally:
        docker(*compose, "down", "--volumes")
