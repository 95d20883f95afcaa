"""One consistent list, read page by page; only the reader's result for each object is kept.

As JSON a thousand machines with 600 types each take 45 MB; a page of a hundred is in memory only while it is read.
What may go wrong: the list expires on the server between two pages (410); it is then read from the start.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from shared.errors import Gone

LIST_TRIES = 3
Json = dict[str, Any]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class KubeList:
    """The objects of one consistent list (or one page of it), and the resourceVersion to watch from."""

    items: list[Json]
    resource_version: str


Pages = Callable[[], AsyncGenerator[KubeList, None]]


async def read_pages(pages: Pages, read: Callable[[Json], Found]) -> tuple[list[Found], str]:
    """The results of ``read`` for all objects, and the resourceVersion of the list. ``read`` gets an object again when
    the list starts again. Raises Gone when the list expired three times in a row.
    """
    for _ in range(LIST_TRIES - 1):
        try:
            return await _read_once(pages, read)
        except Gone:
            continue
    return await _read_once(pages, read)


async def _read_once(pages: Pages, read: Callable[[Json], Found]) -> tuple[list[Found], str]:
    found: list[Found] = []
    version = ""
    async with aclosing(pages()) as opened:
        async for page in opened:
            found += map(read, page.items)
            version = page.resource_version
    return found, version
