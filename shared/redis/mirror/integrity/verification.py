"""A reader's judgement of what it holds: every entry by its tag, all of them together by the writer's heartbeats.

A tag shows that the writer once wrote the entry. Only the sums show that it is still there, and that nothing is
missing, so a forged deletion or an old entry that somebody wrote again is noticed with the next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hmac import compare_digest

from shared.redis.mirror.integrity.contents import Contents
from shared.redis.mirror.integrity.digests import Digester, split
from shared.redis.mirror.integrity.heartbeats import Heartbeat, Position, unseal

FOREIGN = "entries that the watcher did not write; is MIRROR_KEY the same for all services?"


class Verification:
    """Of one reader. ``doubt`` says why its picture may not be acted on; empty while it may be."""

    def __init__(
        self, key: str, kinds: Collection[str], on_rejected: Callable[[], None] | None = None
    ) -> None:
        """``kinds``: those that the reader follows; empty: all. ``on_rejected`` hears of what somebody else wrote."""
        self.doubt = "no heartbeat of the watcher was seen yet"
        self.rejected = 0
        """Entries and heartbeats that somebody else wrote, since the start."""
        self.positions: dict[str, Position] = {}
        """By plural of the resource, as of ``heard_at``."""
        self.heard_at = float("-inf")
        """Monotonic time of the writer's last heartbeat that carried positions."""
        self.contradicted = False
        """The writer holds something else at the same generation: load again, then ask for healing."""
        self._on_rejected = on_rejected
        self._digester = Digester(key)
        self._kinds = kinds
        self._contents = Contents()
        self._epoch = ""
        self._generation = -1
        self._number = -1
        self._renewed = False
        """A heartbeat newer than what was loaded was seen: the whole is no recording of an earlier time."""

    def load(
        self, hashes: Mapping[str, Mapping[str, bytes]], epoch: str, generation: int, seal: bytes
    ) -> dict[str, dict[str, bytes]]:
        """Take over all entries at once; returns the records of those that are the writer's."""
        rejected = self.rejected
        self._contents = Contents(hashes)
        found: dict[str, dict[str, bytes]] = {kind: {} for kind in hashes}
        for kind, values in hashes.items():
            for key, value in values.items():
                body = self.put(kind, key, value)
                if body is not None:
                    found[kind][key] = body
        if epoch != self._epoch or generation < self._generation:
            self._renewed, self.positions = False, {}
        self._epoch, self._generation = epoch, generation
        foreign = self.rejected > rejected
        self.doubt, self.contradicted = "", foreign
        told = unseal(seal, self._digester)
        if told is None or told.epoch != epoch or told.generation != generation:
            self.doubt = "the picture was loaded and waits for the watcher's next heartbeat"
        else:
            self._compare(told)
            self._number = told.number if not self._renewed else max(self._number, told.number)
        if foreign:
            self.doubt = FOREIGN
        elif not self.doubt and not self._renewed:
            self.doubt = "no heartbeat of the watcher was seen since the picture was loaded"
        return found

    def put(self, kind: str, key: str, value: bytes) -> bytes | None:
        """The record of an entry; None when the writer did not write it."""
        tag, body = split(value)
        digest = self._digester.entry(kind, key, body)
        if not body or not compare_digest(digest.tag, tag):
            self._reject()
            return None
        self._contents.put(kind, key, digest.summand)
        return body

    def delete(self, kind: str, key: str, value: bytes) -> bool:
        """Whether a deletion is the writer's."""
        if not compare_digest(self._digester.entry(kind, key, b"").tag, value):
            self._reject()
            return False
        self._contents.delete(kind, key)
        return True

    def moved(self, generation: int) -> None:
        """Changes were taken over: what was agreed on before says nothing of them."""
        self._generation = generation
        self.doubt = self.doubt or "changes wait for the watcher's heartbeat"

    def hear(self, seal: bytes, *, now: float) -> bool:
        """Take over a heartbeat at the generation that it arrives at. False for a forged or an old one."""
        told = unseal(seal, self._digester)
        if told is None or told.epoch != self._epoch or told.number <= self._number:
            self._reject()
            return False
        self._number, self._renewed = told.number, True
        if told.positions is not None and told.generation <= self._generation:
            self.positions, self.heard_at = told.positions, now
        self.doubt = ""
        self._compare(told)
        return True

    def _compare(self, told: Heartbeat) -> None:
        if told.generation != self._generation:
            self.doubt = "the picture is not at the generation of the watcher's heartbeat"
            return
        other = self._contents.differs(
            told.contents, self._kinds, self._digester, told.epoch, told.generation
        )
        if other:
            self.contradicted = True
            self.doubt = f"the picture of {other} is not what the watcher wrote"

    def _reject(self) -> None:
        self.rejected += 1
        self.doubt = FOREIGN
        if self._on_rejected is not None:
            self._on_rejected()
