"""The code of the previous release, taken out of git into a folder of its own."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[4]
TAG, COMMIT = "v0.1.0", "92554edb"
"""The release before this one. The commit is the tag's, for a clone that was made without tags."""


def previous_release(folder: Path) -> Path:
    """Its tree below ``folder``. Skips the test in a clone without its history, or where it needs other packages."""
    commit = _commit()
    if commit is None:
        pytest.skip(f"this clone has no commit of {TAG}: fetch its history")
    tree = folder / TAG
    tree.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit], cwd=PROJECT, capture_output=True, check=True, timeout=60
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True, timeout=60)
    if other := _other_versions((tree / "requirements.lock").read_text()):
        pytest.skip(f"{TAG} needs other packages than this environment has: {', '.join(other)}")
    return tree


def _commit() -> str | None:
    for name in (TAG, COMMIT):
        command = ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
        done = subprocess.run(
            command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode == 0:
            return done.stdout.strip()
    return None


def _other_versions(lock: str) -> list[str]:
    """The packages of a lock that are installed here in another version or not at all."""
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE)
    return [name for name, pinned in pins if _installed(name) != pinned]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
