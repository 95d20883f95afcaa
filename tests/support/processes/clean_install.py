"""Dovetail as users have it: built into a wheel and installed into a venv of its own, far from the checkout.

The packages it depends on are linked from this venv, those and no others: what is not declared is not there. So no
network is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[3]
SOURCES = ("services", "shared", "local", "cli", "deploy")
PATIENCE = 300.0


@dataclass(frozen=True)
class Installation:
    """A venv, and a folder outside the checkout to run its programs in."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *command: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A program of the venv; no variable of this process but PATH reaches it."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=self.folder, env={"PATH": os.environ["PATH"], "COLUMNS": "200"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip


def built_wheel(folder: Path) -> Path:
    """The wheel of this checkout, built in ``folder``: the checkout stays as it is."""
    source = folder / "source"
    for name in SOURCES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / name, source / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, source)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (wheel,) = folder.glob("*.whl")
    return wheel


def empty_venv(folder: Path) -> Installation:
    """A venv that holds nothing."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, timeout=PATIENCE)
    return Installation(folder)


def installed(wheel: Path, folder: Path, extras: Sequence[str] = ()) -> Installation:
    """``wheel`` in a new venv with what it and its ``extras`` declare."""
    venv = empty_venv(folder)
    _pip("--python", str(venv.python), "install", "--no-deps", "--no-index", "--no-compile", str(wheel))  # fmt: skip
    (site,) = folder.glob("lib/python*/site-packages")
    for one in needed("dovetail", frozenset(extras)).values():
        _link(one, site)
    return venv


def needed(package: str, extras: frozenset[str]) -> dict[str, Distribution]:
    """What a package depends on here, directly or not, by name."""
    found: dict[str, Distribution] = {}
    waiting, seen = [(package, extras)], set[tuple[str, frozenset[str]]]()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        one = found.setdefault(name, distribution(name))
        texts = (Requirement(text) for text in one.requires or [])
        waiting += [(canonicalize_name(r.name), frozenset(r.extras)) for r in texts if _holds(r, wanted)]  # fmt: skip
    del found[package]
    return found


def _holds(requirement: Requirement, extras: frozenset[str]) -> bool:
    if requirement.marker is None:
        return True
    here = {name: str(value) for name, value in default_environment().items()}
    return any(requirement.marker.evaluate(here | {"extra": one}) for one in extras | {""})


def _link(one: Distribution, site: Path) -> None:
    tops = {path.parts[0] for path in one.files or [] if path.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(one.locate_file(top))))


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
