"""The version of the installed package, as set in ``pyproject.toml``, and the commit it was built from, if known."""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

VERSION = version("dovetail")
COMMIT_VARIABLE = "DOVETAIL_COMMIT"
"""Environment variable with the commit that the image was built from; set by the image build."""
_ROOT = Path(__file__).resolve().parents[2]
_GIT_SECONDS = 2.0


def commit() -> str:
    """The commit: that of the image, or of the checkout that this file lies in; empty when it is not known."""
    if named := os.environ.get(COMMIT_VARIABLE):
        return named[:40]
    if not (_ROOT / ".git").exists():
        return ""
    words = ["git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def described() -> str:
    """``0.1.0 (commit 0123456789ab)``, or the version alone."""
    known = commit()
    return f"{VERSION} (commit {known})" if known else VERSION
