"""YAML files as their documents, read by libyaml where it is there: all CRDs take Python's own reader a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: str | Path) -> list[dict[str, Any]]:
    """All documents of a file, or of its text."""
    return list(yaml.load_all(text.read_text() if isinstance(text, Path) else text, LOADER))
