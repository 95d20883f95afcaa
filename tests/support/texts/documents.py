"""The documents of a YAML file, and the pages of ``docs`` that users read.

libyaml reads them where it is installed: PyYAML's own reader needs a second for all CRDs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.support.texts.citations import PROJECT

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: str | Path) -> list[dict[str, Any]]:
    """All documents of a file, or of its text."""
    return list(yaml.load_all(text.read_text() if isinstance(text, Path) else text, LOADER))


def user_pages() -> list[Path]:
    """All pages of ``docs`` except the specification and the decisions, sorted by path."""
    docs = PROJECT / "docs"
    return sorted(
        path
        for path in docs.rglob("*.md")
        if path.relative_to(docs).parts[0] not in {"spec", "decisions"}
    )
