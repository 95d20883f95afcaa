"""The Dockerfile holds what the stack runs, needs one registry at most, and runs as nobody."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[2]
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
LINES = re.sub(r"\\\n", " ", DOCKERFILE).splitlines()
SENT = [line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line[0] == "!"]


def copied() -> list[str]:
    """What the build takes from the project's folder."""
    copies = [line.split()[1:-1] for line in LINES if line.startswith("COPY ")]
    return [source for sources in copies for source in sources if sources[0][:2] != "--"]


def test_every_package_of_the_project_is_in_the_image() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {one.rstrip("*") for one in packages} <= {*copied()}


def test_the_build_is_sent_what_it_copies_and_nothing_else() -> None:
    assert sorted(SENT) == sorted(copied())
    assert all((PROJECT / source).exists() for source in copied())


def test_it_runs_as_the_user_of_the_manifests() -> None:
    """docs/security.md: what a container may do. By number: a kubelet cannot tell that a name is not root."""
    assert [line for line in LINES if line.startswith("USER ")] == ["USER 65532:65532"]


def test_the_build_asks_a_registry_for_its_base_alone() -> None:
    """A `syntax` line is a second image, which a closed network does not have."""
    assert not re.search(r"^# *syntax *=", DOCKERFILE, re.MULTILINE)
    assert {line.split()[1] for line in LINES if line.startswith("FROM ")} == {"${BASE_IMAGE}"}


LOCKED = set(re.findall(r"^([\w.-]+)==", (PROJECT / "requirements.lock").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def requirements() -> list[Requirement]:
    """What the locked packages need, those of them that are installed here."""
    found = (one for one in distributions() if canonicalize_name(one.name) in LOCKED)
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
    assert needed - LOCKED == set()
