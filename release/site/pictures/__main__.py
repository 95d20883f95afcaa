"""``python -m release.site.pictures``: writes docs/pictures."""

from __future__ import annotations

from pathlib import Path

from release.site.pictures.concepts import PICTURES

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "pictures"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg())
