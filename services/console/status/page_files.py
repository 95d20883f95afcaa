"""The files of the page, and the headers that keep a browser from loading anything else."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parent.parent / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
SERVED = {".html", ".css", ".js", ".mjs", ".svg", ".png", ".json", ".txt"}


class PageFile(NamedTuple):
    """One file: its media type and content."""

    media_type: str
    body: bytes


def page_files(root: Path = PAGE) -> dict[str, PageFile]:
    """URL path -> file, read once at the start: no request names a path of the disk."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix in SERVED:
            name = path.relative_to(root).as_posix()
            media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
            found["/" if name == "index.html" else f"/{name}"] = PageFile(
                media_type, path.read_bytes()
            )
    return found
