"""Writes deploy/crds and docs/reference.md from the models: ``make crds``.

A folder as argument takes the place of the repository. Files of kinds that are gone stay: a test names them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from shared.api.crd import crd_file, crd_text
from shared.api.field_tables import reference_text
from shared.api.schema.catalogue import KINDS

REPOSITORY = Path(__file__).resolve().parents[1]


def generated() -> Iterator[tuple[str, str]]:
    """(path below the repository, content) of every generated file."""
    for kind in KINDS:
        yield f"deploy/crds/{crd_file(kind.INFO)}", crd_text(kind)
    yield "docs/reference.md", reference_text(KINDS)


def write(root: Path) -> None:
    """Write every file below ``root``."""
    for name, content in generated():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY)
