"""Streams: entries in order of their ids, in nodes of at most a hundred as the real server keeps them.

The nodes matter for ``MAXLEN ~``, which removes whole nodes only. The real server also begins a node after 4 KiB, which
is left out here: it keeps fewer entries beyond the limit than this one does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.values.group import Group

NODE_ENTRIES = 100


class Id(NamedTuple):
    """The id of an entry."""

    milliseconds: int
    sequence: int

    def text(self) -> bytes:
        """As it is on the wire."""
        return b"%d-%d" % self

    def after(self) -> Id:
        """The next id; the highest id stays."""
        if self.sequence < LIMIT:
            return Id(self.milliseconds, self.sequence + 1)
        return Id(self.milliseconds + 1, 0) if self.milliseconds < LIMIT else self

    def before(self) -> Id:
        """The previous id; the lowest id stays."""
        if self.sequence > 0:
            return Id(self.milliseconds, self.sequence - 1)
        return Id(self.milliseconds - 1, LIMIT) if self.milliseconds > 0 else self


LIMIT = 2**64 - 1
LOWEST, HIGHEST = Id(0, 0), Id(LIMIT, LIMIT)
Fields = list[bytes]
"""Field, value, field, value …; never changed."""


class _Node:
    __slots__ = ("entries", "ids", "total")

    def __init__(self) -> None:
        self.ids: list[Id] = []
        self.entries: list[Fields] = []
        self.total = 0
        """With the deleted ones: a node is full after so many additions."""


def _end(node: _Node) -> Id:
    return node.ids[-1]


class Stream:
    """Entries and consumer groups. ``first`` and ``deleted`` serve the estimate of ``lag`` (Redis 7.0)."""

    def __init__(self) -> None:
        self._nodes: list[_Node] = []
        self.length = 0
        self.added = 0
        """Entries ever added."""
        self.last = LOWEST
        self.first = LOWEST
        """Of the first entry; LOWEST for an empty stream."""
        self.deleted = LOWEST
        """The highest id that was removed by XDEL."""
        self.groups: dict[bytes, Group] = {}

    def __contains__(self, entry_id: Id) -> bool:
        return next(self.range(entry_id, entry_id), None) is not None

    def range(self, low: Id, high: Id) -> Iterator[tuple[Id, Fields]]:
        """The entries between these ids, both included. The stream may not change meanwhile."""
        for index in range(self._place(low), len(self._nodes)):
            node = self._nodes[index]
            if node.ids[0] > high:
                return
            start, end = bisect_left(node.ids, low), bisect_right(node.ids, high)
            yield from zip(node.ids[start:end], node.entries[start:end], strict=True)

    def _place(self, entry_id: Id) -> int:
        """The index of the first node that does not end before this id."""
        return bisect_left(self._nodes, entry_id, key=_end)

    def reverse_range(self, high: Id, low: Id) -> Iterator[tuple[Id, Fields]]:
        """The same from the end."""
        for node in reversed(self._nodes):
            if node.ids[0] > high:
                continue
            if node.ids[-1] < low:
                return
            start, end = bisect_left(node.ids, low), bisect_right(node.ids, high)
            yield from zip(node.ids[start:end][::-1], node.entries[start:end][::-1], strict=True)

    @property
    def nodes(self) -> int:
        """How many nodes hold the entries."""
        return len(self._nodes)

    def newest(self) -> Id:
        """The id of the last entry that exists; LOWEST for an empty stream."""
        return self._nodes[-1].ids[-1] if self._nodes else LOWEST

    def append(self, db: Keyspace, entry_id: Id, fields: Fields) -> None:
        """Add an entry whose id is above ``last``."""
        before = (self.length, self.added, self.last, self.first)
        node = self._node_with_room()
        node.ids.append(entry_id)
        node.entries.append(fields)
        node.total += 1
        self.length, self.added, self.last = self.length + 1, self.added + 1, entry_id
        if self.length == 1:
            self.first = entry_id
        db.undo(lambda: self._undo_append(node, before))

    def _node_with_room(self) -> _Node:
        if not self._nodes or self._nodes[-1].total >= NODE_ENTRIES:
            self._nodes.append(_Node())
        return self._nodes[-1]

    def _undo_append(self, node: _Node, before: tuple[int, int, Id, Id]) -> None:
        node.ids.pop()
        node.entries.pop()
        node.total -= 1
        if not node.ids:
            self._nodes.remove(node)
        self.length, self.added, self.last, self.first = before

    def remove(self, db: Keyspace, entry_id: Id) -> bool:
        """Delete one entry (XDEL). Whether it existed."""
        at = self._place(entry_id)
        if at == len(self._nodes):
            return False
        node = self._nodes[at]
        index = bisect_left(node.ids, entry_id)
        if node.ids[index] != entry_id:
            return False
        self._snapshot(db)
        # The snapshot holds the old nodes, so they are copied, not changed.
        self._replace(at, index)
        self.length -= 1
        self.deleted = max(self.deleted, entry_id)
        self.first = self._nodes[0].ids[0] if self._nodes else LOWEST
        return True

    def _replace(self, at: int, index: int) -> None:
        """Put a copy without the entry at ``index`` in the place of the node ``at``."""
        node, copy = self._nodes[at], _Node()
        copy.ids = [*node.ids[:index], *node.ids[index + 1 :]]
        copy.entries = [*node.entries[:index], *node.entries[index + 1 :]]
        copy.total = node.total
        self._nodes[at : at + 1] = [copy] if copy.ids else []

    def trim_to_length(self, db: Keyspace, length: int, *, approximately: bool) -> int:
        """Remove the oldest entries until ``length`` are left; approximately: only whole nodes. Returns how many."""
        return self._trim(db, approximately, lambda node: self.length - length)

    def trim_below(self, db: Keyspace, lowest: Id, *, approximately: bool) -> int:
        """Remove the entries below ``lowest``; approximately: only whole nodes. Returns how many."""
        return self._trim(db, approximately, lambda node: bisect_left(node.ids, lowest))

    def _trim(self, db: Keyspace, approximately: bool, surplus: Callable[[_Node], int]) -> int:
        """``surplus``: how many entries of the first node, or more, are to go."""
        before = self.length
        while self._nodes and (excess := surplus(self._nodes[0])) > 0:
            node = self._nodes[0]
            if excess < len(node.ids) and approximately:
                break
            if self.length == before:
                self._snapshot(db)
            self.length -= min(excess, len(node.ids))
            if excess >= len(node.ids):
                del self._nodes[0]
                continue
            copy = _Node()
            copy.ids, copy.entries, copy.total = (
                node.ids[excess:],
                node.entries[excess:],
                node.total,
            )
            self._nodes[0] = copy
            break
        self.first = self._nodes[0].ids[0] if self._nodes else LOWEST
        return before - self.length

    def _snapshot(self, db: Keyspace) -> None:
        """Note the nodes as they are: thousands of entries are a few dozen nodes."""
        nodes = [*self._nodes]
        rest = (self.length, self.first, self.deleted)

        def restore() -> None:
            self._nodes = nodes
            self.length, self.first, self.deleted = rest

        db.undo(restore)

    def distance(self, entry_id: Id) -> int | None:
        """How many entries were added up to this id; None where Redis does not know it after deletions."""
        if not self.added:
            return 0
        if not self.length and entry_id <= self.last:
            return self.added
        if entry_id == self.last:
            return self.added
        if entry_id > self.last:
            return None
        if (self.deleted == LOWEST or self.deleted < self.first) and entry_id <= self.first:
            return self.added - self.length + (entry_id == self.first)
        return None

    def has_deleted_after(self, entry_id: Id) -> bool:
        """Whether an entry at or above this id was removed by XDEL."""
        return bool(self.length) and self.deleted != LOWEST and entry_id <= self.deleted
