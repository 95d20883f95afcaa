"""The files of the page, and the headers that keep a browser from loading anything else."""

from __future__ import annotations

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
MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
"""By suffix; other files are not served. Not the machine's own table, which may call a script text/plain."""


class PageFile(NamedTuple):
    """One file: its media type and content."""

    media_type: str
    body: bytes


def page_files(root: Path = PAGE) -> dict[str, PageFile]:
    """URL path -> file, read once at the start: no request names a path of the disk."""
    found = {}
    for path in sorted(root.rglob("*")):
        media_type = MEDIA_TYPES.get(path.suffix)
        if media_type is not None and path.is_file():
            name = path.relative_to(root).as_posix()
            url = "/" if name == "index.html" else f"/{name}"
            found[url] = PageFile(media_type, path.read_bytes())
    return found
