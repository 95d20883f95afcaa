"""A reader's verification of its entries: each one by its tag, all of them together by the writer's heartbeats.

A tag proves that the writer once wrote the entry. Only the sums prove that the entry is current and that none is
missing, so the next heartbeat reveals a forged deletion or a replayed old entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hmac import compare_digest

from shared.redis.mirror.integrity.contents import Contents
from shared.redis.mirror.integrity.digests import Digester, split
from shared.redis.mirror.integrity.heartbeats import Heartbeat, Position, unseal

FOREIGN = "entries that the watcher did not write; is MIRROR_KEY the same for all services?"


class Verification:
    """The verification of one reader. ``doubt`` is the reason why its entries may not be acted on; empty while they
    may be."""

    def __init__(
        self, key: str, kinds: Collection[str], on_rejected: Callable[[], None] | None = None
    ) -> None:
        """``kinds``: those that the reader follows; empty means all. ``on_rejected`` is called for each foreign entry
        or heartbeat."""
        self.doubt = "no heartbeat of the watcher was seen yet"
        self.rejected = 0
        """Entries and heartbeats that the writer did not write, since the start."""
        self.positions: dict[str, Position] = {}
        """Plural of the resource -> position, as of ``positions_at``."""
        self.positions_at = float("-inf")
        """Monotonic time of the writer's last heartbeat that carried positions."""
        self.contradicted = False
        """The writer holds other contents at the same generation: load again, then request a rebuild."""
        self._on_rejected = on_rejected
        self._digester = Digester(key)
        self._kinds = kinds
        self._contents = Contents()
        self._epoch = ""
        self._generation = -1
        self._number = -1
        self._renewed = False
        """A heartbeat newer than the load arrived, so the loaded mirror is not a recording of an earlier time."""

    def load(
        self, hashes: Mapping[str, Mapping[str, bytes]], epoch: str, generation: int, seal: bytes
    ) -> dict[str, dict[str, bytes]]:
        """Replace all entries at once; returns the records of the entries that the writer wrote."""
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
        heartbeat = unseal(seal, self._digester)
        if heartbeat is None or (heartbeat.epoch, heartbeat.generation) != (epoch, generation):
            self.doubt = "the picture was loaded and waits for the watcher's next heartbeat"
        else:
            self._compare(heartbeat)
            number = heartbeat.number
            self._number = number if not self._renewed else max(self._number, number)
        if foreign:
            self.doubt = FOREIGN
        elif not self.doubt and not self._renewed:
            self.doubt = "no heartbeat of the watcher was seen since the picture was loaded"
        return found

    def put(self, kind: str, key: str, value: bytes) -> bytes | None:
        """Verify and add an entry; returns its record, None when the writer did not write it."""
        tag, body = split(value)
        digest = self._digester.entry(kind, key, body)
        if not body or not compare_digest(digest.tag, tag):
            self._reject()
            return None
        self._contents.put(kind, key, digest.summand)
        return body

    def delete(self, kind: str, key: str, value: bytes) -> bool:
        """Verify and apply a deletion; False when the writer did not write it."""
        if not compare_digest(self._digester.entry(kind, key, b"").tag, value):
            self._reject()
            return False
        self._contents.delete(kind, key)
        return True

    def moved(self, generation: int) -> None:
        """Changes were applied up to ``generation``; they are unverified until the next heartbeat."""
        self._generation = generation
        self.doubt = self.doubt or "changes wait for the watcher's heartbeat"

    def take_heartbeat(self, seal: bytes, *, now: float) -> bool:
        """Verify the contents by a heartbeat. False for a forged or a replayed one."""
        beat = unseal(seal, self._digester)
        if beat is None or beat.epoch != self._epoch or beat.number <= self._number:
            self._reject()
            return False
        self._number, self._renewed = beat.number, True
        # Positions ahead of our generation would claim changes that are not applied here yet.
        if beat.positions is not None and beat.generation <= self._generation:
            self.positions, self.positions_at = beat.positions, now
        self.doubt = ""
        self._compare(beat)
        return True

    def _compare(self, beat: Heartbeat) -> None:
        if beat.generation != self._generation:
            self.doubt = "the picture is not at the generation of the watcher's heartbeat"
            return
        other = self._contents.differs(
            beat.contents, self._kinds, self._digester, beat.epoch, beat.generation
        )
        if other:
            self.contradicted = True
            self.doubt = f"the picture of {other} is not what the watcher wrote"

    def _reject(self) -> None:
        self.rejected += 1
        self.doubt = FOREIGN
        if self._on_rejected is not None:
            self._on_rejected()
