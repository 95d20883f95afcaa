"""``python -m release.locks``: makes the locks anew from ``pyproject.toml`` (``make locks``), keeping what they pin.

Run it on Linux x86_64 with Python 3.11: a lock holds what is installed there, and elsewhere a subset of it. Options are
handed on to pip-compile: ``--upgrade-package NAME``, ``--upgrade``.
What may go wrong: no network, or versions that exclude each other: the run ends with what pip-compile said.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[1]
SERVICES, LOCAL, DEVELOPMENT, DOCUMENTS, BUILD, RELEASE = (
    "requirements.lock", "requirements-local.lock", "requirements-dev.lock", "requirements-docs.lock",
    "requirements-build.lock", "requirements-release.lock",
)  # fmt: skip
LOCKS: dict[str, tuple[str, ...]] = {
    SERVICES: ("--extra", "tracing"),
    LOCAL: ("--constraint", SERVICES, "--extra", "tracing", "--extra", "local"),
    DEVELOPMENT: (
        *("--constraint", LOCAL, "--extra", "tracing", "--extra", "local", "--extra", "dev"),
    ),
    DOCUMENTS: ("--constraint", DEVELOPMENT, "--extra", "docs"),
    BUILD: ("--constraint", LOCAL, "--only-build-deps", "--build-deps-for", "wheel"),
    RELEASE: ("--constraint", DEVELOPMENT, "--extra", "release"),
}
"""What each lock is made with; a lock comes after those that bind it."""
COMMON = (
    "--quiet", "--allow-unsafe", "--generate-hashes", "--no-emit-find-links", "--no-emit-index-url",
    "--no-emit-trusted-host", "--strip-extras",
)  # fmt: skip


def markers(project: str) -> Iterator[tuple[str, str]]:
    """(package, marker) of what an extra asks for on some machines only."""
    extras = tomllib.loads(project)["project"]["optional-dependencies"]
    for one in (Requirement(text) for texts in extras.values() for text in texts):
        if one.marker is not None:
            yield canonicalize_name(one.name), str(one.marker)


def marked(lock: str, project: str) -> str:
    """``lock`` with the markers that pip-compile leaves out of an extra's packages."""
    for name, marker in markers(project):
        lock = re.sub(rf"^({re.escape(name)}==\S+)(?= \\)", rf"\1 ; {marker}", lock, flags=re.M)
    return lock


def main(options: Sequence[str]) -> None:
    """Write all locks."""
    project = (PROJECT / "pyproject.toml").read_text()
    for name, own in LOCKS.items():
        command = [sys.executable, "-m", "piptools", "compile", *COMMON, *own, *options]
        subprocess.run([*command, "--output-file", name, "pyproject.toml"], cwd=PROJECT, check=True)
        lock = PROJECT / name
        lock.write_text(marked(lock.read_text(), project))


if __name__ == "__main__":
    main(sys.argv[1:])
