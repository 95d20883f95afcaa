"""``python -m release.check``: may what is checked out be released under the version of ``pyproject.toml``?

Prints what is missing, one line each, and exits with 1. It changes nothing.
``docs/development/releasing.md`` describes a whole release.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.locks import LOCAL, PROJECT, SERVICES

_SECTION = re.compile(r"^## (?P<title>.*)\n(?P<text>(?:(?!## ).*\n?)*)", re.MULTILINE)


def of_version(version: str) -> Iterator[str]:
    """A release has three numbers."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield f"pyproject.toml: version {version!r} is no MAJOR.MINOR.PATCH"


def of_changelog(changelog: str, version: str) -> Iterator[str]:
    """The version has a section with a date, and nothing waits for a later one."""
    sections = {one["title"].strip(): one["text"].strip() for one in _SECTION.finditer(changelog)}
    if sections.get("Unreleased"):
        yield f"CHANGELOG.md: move what is under Unreleased to '## {version} - YYYY-MM-DD'"
    pattern = re.compile(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d")
    if not any(pattern.fullmatch(title) and text for title, text in sections.items()):
        yield f"CHANGELOG.md: there is no section '## {version} - YYYY-MM-DD' with text"


def of_lock(project: str, name: str, lock: str) -> Iterator[str]:
    """The lock pins every package that the project asks for, in a version that it accepts."""
    declared = tomllib.loads(project)["project"]
    texts = declared["dependencies"] + (
        declared["optional-dependencies"]["local"] if name == LOCAL else []
    )
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE))
    for one in map(Requirement, texts):
        found = pinned.get(canonicalize_name(one.name))
        if found is None or not one.specifier.contains(found):
            yield f"{name}: {one.name} is {found or 'missing'}, not {one.specifier}; run make locks"


def of_git(status: str, tags: str, version: str) -> Iterator[str]:
    """Everything is committed, and the version is not taken. The answers of git status and git tag."""
    if status.strip():
        yield "git: there are changes that are not committed"
    if f"v{version}" in tags.split():
        yield f"git: the tag v{version} exists; raise the version in pyproject.toml"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def missing() -> list[str]:
    """All that stands against a release."""
    project = (PROJECT / "pyproject.toml").read_text()
    version = tomllib.loads(project)["project"]["version"]
    return [
        *of_version(version),
        *of_changelog((PROJECT / "CHANGELOG.md").read_text(), version),
        *(m for name in (SERVICES, LOCAL) for m in of_lock(project, name, _text(name))),
        *of_git(_git("status", "--porcelain"), _git("tag", "--list"), version),
    ]


def _text(name: str) -> str:
    return Path(PROJECT / name).read_text()


if __name__ == "__main__":
    found = missing()
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.exit(1 if found else 0)
