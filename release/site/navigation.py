"""The site's navigation, read from the tables of ``docs/README.md`` and of the other indexes in ``docs``.

Who adds a page adds a row to an index, which a test asks for anyway; nothing else has to know the page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_SECTION = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_LINK = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<target>[^)#:]+\.md)(?:#[^)]*)?\)")


class Page(NamedTuple):
    """A page that an index links to."""

    title: str
    name: str
    """Its path from the top of the project, without ``.md``."""


class Section(NamedTuple):
    """A heading of an index, and the pages that its tables link to."""

    title: str
    pages: tuple[Page, ...]


def sections(index: str, folder: str) -> Iterator[Section]:
    """Sections of an index in ``folder`` with the pages of their tables; a page belongs to the first that links."""
    parts = _SECTION.split(index)
    seen: set[str] = set()
    for title, text in zip(["", *parts[1::2]], parts[0::2], strict=True):
        pages = tuple(page for page in _pages(text, folder) if page.name not in seen)
        seen |= {page.name for page in pages}
        if pages:
            yield Section(title, pages)


def _pages(text: str, folder: str) -> Iterator[Page]:
    """Each page once, in the order of the rows."""
    found: dict[str, str] = {}
    for row in _ROW.findall(text):
        for link in _LINK.finditer(row):
            target = posixpath.normpath(posixpath.join(folder, link["target"]))
            found.setdefault(target.removesuffix(".md"), link["title"])
    yield from (Page(title, name) for name, title in found.items())


def contents(caption: str, entries: Sequence[str]) -> str:
    """A hidden ``toctree`` of MyST; an entry is ``/name`` or ``title </name>``."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])
