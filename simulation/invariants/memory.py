"""Memory of processes: no collection of a service grows with what happened, only with what there is.

The objects of a service are walked from its loops: instances of our classes, what functions enclose, and collections.
Records (msgspec) are values and not walked; the catalogue of instance types is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import msgspec

from simulation.invariants.picture import Picture

if TYPE_CHECKING:
    from simulation.world import World

OURS = ("services.", "shared.")
MOST_ENTRIES = 1_000
"""Of one collection, beside one entry for each object of the cluster: a few of each machine, pod and message of the
last minutes. A collection that is never emptied gets there within an hour of simulated time. Longer runs may have more:
what is written as events is remembered for an hour."""
USUAL_MINUTES = 5.0
MOST_WALKED = 500
"""Entries of a collection that are looked into."""
COLLECTIONS = (dict, list, set, deque)
ATOMS = frozenset({str, bytes, int, float, bool, type(None)})
"""They hold on to nothing, and are most of what is found."""


@dataclass
class CollectionsAreBounded:
    """I12, F32: every map, set, list and queue of a process is bounded, however long it ran."""

    picture: Picture
    name: str = "collections of a process are bounded"

    def check(self, world: World) -> list[str]:
        """Collections that are too long."""
        objects = self.picture.refresh(world).documents.values()
        longer = max(1.0, world.settings.minutes / USUAL_MINUTES)
        most = int(MOST_ENTRIES * longer) + sum(map(len, objects))
        return [
            f"{where} of {name} has {size} entries, at most {most}"
            for name, process in world.processes.items()
            for where, size in sorted(sizes(process.services).items())
            if size > most
        ]


def sizes(roots: Iterable[object]) -> dict[str, int]:
    """Class and attribute -> entries of the largest such collection that can be reached from ``roots``."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    waiting = [*roots]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name, value in _parts(one):
            if isinstance(value, COLLECTIONS) and name:
                where = f"{type(one).__name__}.{name}"
                found[where] = max(found.get(where, 0), len(value))
            if type(value) not in ATOMS:
                waiting.append(value)
    return found


def _parts(one: object) -> Iterator[tuple[str, object]]:
    """(attribute or nothing, value) of everything that an object holds on to."""
    if isinstance(one, dict):
        yield from (("", value) for value, _ in zip(one.values(), range(MOST_WALKED), strict=False))
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from (("", value) for value, _ in zip(one, range(MOST_WALKED), strict=False))
    elif isinstance(one, MethodType):
        yield "", one.__self__
    elif isinstance(one, partial):
        yield from (("", part) for part in (one.func, *one.args, *one.keywords.values()))
    elif isinstance(one, FunctionType):
        yield from (("", cell.cell_contents) for cell in one.__closure__ or () if _is_set(cell))
    elif type(one).__module__.startswith(OURS) and not isinstance(one, msgspec.Struct | type):
        yield from _attributes(one)


def _attributes(one: object) -> Iterator[tuple[str, object]]:
    yield from list(getattr(one, "__dict__", {}).items())
    for kind in type(one).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(one, name):
                yield name, getattr(one, name)


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
