"""One consistent list, read page by page; only the reader's result for each object is kept.

As JSON a thousand machines with 600 types each take 45 MB; a page of a hundred is in memory only while it is read.
What may go wrong: the list expires on the server between two pages (410); it is then read from the start.

A service that lists the same objects again and again reads only those that changed (``Unchanged``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import orjson

from shared.api.v1.auto_mode import KINDS_OF_OTHERS, is_of_others
from shared.errors import Gone
from shared.kube.resources import Resource

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


def items_of(page: Json, resource: Resource) -> list[Json]:
    """The items of a page, with the apiVersion and kind that the API server omits in lists of built-in kinds; without
    objects of other autoscalers."""
    items: list[Json] = page.get("items") or []
    for item in items:
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
    if resource.kind not in KINDS_OF_OTHERS:
        return items
    return [item for item in items if not is_of_others(resource.kind, item)]


class Unchanged(Generic[Found]):
    """What ``read`` gave for the objects of the last complete list; one with equal contents is not read again.

    ``read`` must depend on nothing but the object. Contents are compared by a digest, which costs a tenth of reading a
    machine: after etcd was rolled back the same resourceVersion may stand for other contents.
    """

    def __init__(self, read: Callable[[Json], Found]) -> None:
        self._read = read
        self._known: dict[bytes, Found] = {}

    async def listed(
        self, read_all: Callable[[Callable[[Json], Found]], Awaitable[Sequence[Found]]]
    ) -> list[Found]:
        """The results for all objects of one list, which ``read_all`` reads. Raises as ``read_all``."""
        seen: dict[bytes, Found] = {}

        def read(raw: Json) -> Found:
            digest = blake2b(orjson.dumps(raw), digest_size=16).digest()
            found = self._known[digest] if digest in self._known else self._read(raw)
            seen[digest] = found
            return found

        listed = list(await read_all(read))
        self._known = seen
        return listed
