"""One consistent list, read page by page, of which no more is kept than what the reader makes of each object.

As JSON a thousand machines with 600 types each take 45 MB; a page of a hundred is in memory only for as long as it is
read. What may go wrong: the server forgets a list between two of its pages (410); then it is read from the start.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from shared.errors import Gone

TRIES = 3
Json = dict[str, Any]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class KubeList:
    """Objects of one consistent list (or one page of it) and the version to watch from."""

    items: list[Json]
    resource_version: str


Pages = Callable[[], AsyncGenerator[KubeList, None]]


async def read_pages(pages: Pages, read: Callable[[Json], Found]) -> tuple[list[Found], str]:
    """What ``read`` makes of each object, and the version of the list. ``read`` sees an object again when the list
    begins again. Raises Gone when it expired three times over.
    """
    for _ in range(TRIES - 1):
        try:
            return await _read_once(pages, read)
        except Gone:
            continue
    return await _read_once(pages, read)


async def _read_once(pages: Pages, read: Callable[[Json], Found]) -> tuple[list[Found], str]:
    found: list[Found] = []
    version = ""
    async with aclosing(pages()) as every:
        async for page in every:
            found += map(read, page.items)
            version = page.resource_version
    return found, version
