"""Data files of Dovetail, found both in a checkout and in an installed package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from shared.errors import ConfigurationError


def packaged(package: str, name: str) -> Path:
    """The path of a file or folder in ``package``. Raises ConfigurationError when the installation lacks it."""
    found = Path(str(files(package) / name))
    if not found.exists():
        raise ConfigurationError(
            f"{found} is missing: this installation of Dovetail is incomplete; install it again"
        )
    return found
