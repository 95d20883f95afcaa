"""Sorted sets."""

from __future__ import annotations

from bisect import bisect_left, insort

from simulation.servers.redis.keyspace import Keyspace


class SortedSet:
    """Members with scores, ordered by score and then by member."""

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self.ordered: list[tuple[float, bytes]] = []

    def put(self, db: Keyspace, member: bytes, score: float) -> None:
        """Add the member or change its score."""
        old = self.scores.get(member)
        db.undo(lambda: self._set(member, old))
        self._set(member, score)

    def remove(self, db: Keyspace, member: bytes) -> bool:
        """Whether the member was there."""
        old = self.scores.get(member)
        if old is None:
            return False
        db.undo(lambda: self._set(member, old))
        self._set(member, None)
        return True

    def _set(self, member: bytes, score: float | None) -> None:
        old = self.scores.pop(member, None)
        if old is not None:
            del self.ordered[bisect_left(self.ordered, (old, member))]
        if score is not None:
            self.scores[member] = score
            insort(self.ordered, (score, member))
