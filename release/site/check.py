"""``python -m release.site.check FOLDER``: whether a built site is whole and needs nobody else's server.

Each link leads to a file and a heading that exist, and what a page loads (scripts, styles, pictures) is in the folder.
What may go wrong: a fault ends the program with code 1 and one line for each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements whose address the browser fetches by itself."""
_ADDRESS_IN_CSS = re.compile(r"""(?:url\(|@import)\s*["']?(?P<address>[^"')\s;]+)""")


class Page(HTMLParser):
    """The addresses and the ids of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag in LOADED and LOADED[tag] in values:
            self.loaded.add(values[LOADED[tag]])


def read(path: Path) -> Page:
    """Parse one HTML file."""
    page = Page()
    page.feed(path.read_text())
    return page


def faults(folder: Path) -> Iterator[str]:
    """One line for each address of a page or style sheet that leads nowhere or elsewhere."""
    pages = {path: read(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder)
        for address in sorted(page.loaded | page.links):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    yield f"{name}: {address}: loaded from elsewhere"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name}: {address}: no such file"
            elif target in pages and parts.fragment and parts.fragment not in pages[target].ids:
                yield f"{name}: {address}: no such heading"
    for style in sorted(folder.rglob("*.css")):
        for found in _ADDRESS_IN_CSS.finditer(style.read_text()):
            if urlsplit(found["address"]).netloc:
                yield f"{style.relative_to(folder)}: {found['address']}: loaded from elsewhere"


def main(folder: Path) -> int:
    """The exit code."""
    found = list(faults(folder.resolve()))
    if not list(folder.glob("*.html")):
        found = [f"{folder}: there is no page"]
    sys.stderr.writelines(f"{one}\n" for one in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
