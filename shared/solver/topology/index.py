"""Which selectors select a pod, and which pods a selector selects, without trying all of them.

Most selectors name labels of one deployment. With thousands of deployments, trying each selector on each pod would take
most of a plan's time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from shared.domain.expressions import Expression
from shared.domain.requirements import IN
from shared.solver.topology.selectors import Selector

T = TypeVar("T")
_Place = tuple[str | None, str, str]
"""(namespace, or None for all; label key; value). Without a label, key and value are empty."""


class SelectorIndex(Generic[T]):
    """Selectors, each with something that belongs to it.

    A selector is listed under one of its labels, so that a pod asks the lists of its own labels only.
    """

    def __init__(self) -> None:
        self._lists: dict[_Place, list[tuple[int, Selector, T]]] = {}
        self._count = 0

    def add(self, selector: Selector, found: T) -> None:
        """Adds a selector under the label that has the shortest list so far: some labels are those of every pod."""
        entry = (self._count, selector, found)
        self._count += 1
        alternatives = _alternatives(selector)
        chosen = min(alternatives, key=lambda places: sum(map(self._length, places)))
        for place in chosen:
            self._lists.setdefault(place, []).append(entry)

    def _length(self, place: _Place) -> int:
        return len(self._lists.get(place, ()))

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> list[T]:
        """What belongs to the selectors that select such a pod, in the order in which they were added."""
        pairs = [("", ""), *labels.items()]
        lists = (self._lists.get((where, *pair)) for pair in pairs for where in (namespace, None))
        entries = {
            entry[0]: entry
            for listed in lists
            for entry in listed or ()
            if entry[1].selects(namespace, labels)
        }
        return [entries[position][2] for position in sorted(entries)]


def _alternatives(selector: Selector) -> list[list[_Place]]:
    """Sets of places; each pod that is selected has one of the places of every set."""
    namespaces: tuple[str | None, ...] = selector.namespaces or (None,)
    values: list[tuple[tuple[str, str], ...]] = [(pair,) for pair in selector.labels]
    values += [
        tuple((e.key, v) for v in e.values) for e in selector.expressions if _lists_values(e)
    ]
    return [[(where, *pair) for pair in pairs for where in namespaces] for pairs in values] or [
        [(where, "", "") for where in namespaces]
    ]


def _lists_values(expression: Expression) -> bool:
    return expression.operator == IN and bool(expression.values)


class PodIndex(Generic[T]):
    """Kinds of pods by namespace and labels, each with something that belongs to it."""

    def __init__(self) -> None:
        self._all: list[tuple[str, Mapping[str, str], T]] = []
        self._lists: dict[_Place, list[tuple[str, Mapping[str, str], T]]] = {}

    def add(self, namespace: str, labels: Mapping[str, str], found: T) -> None:
        """Adds one kind of pods."""
        entry = (namespace, labels, found)
        self._all.append(entry)
        for pair in labels.items():
            for where in (namespace, None):
                self._lists.setdefault((where, *pair), []).append(entry)

    def selected(self, selector: Selector) -> Iterator[T]:
        """What belongs to the pods that the selector selects."""
        for namespace, labels, found in self._candidates(selector):
            if selector.selects(namespace, labels):
                yield found

    def _candidates(self, selector: Selector) -> list[tuple[str, Mapping[str, str], T]]:
        if not selector.labels:
            return self._all
        namespaces: tuple[str | None, ...] = selector.namespaces or (None,)
        return min(
            (
                [e for where in namespaces for e in self._lists.get((where, *pair), ())]
                for pair in selector.labels
            ),
            key=len,
        )
