"""The contents of a mirror as one sum and one count per kind: two mirrors with equal entries have equal sums.

Each change updates the sums, so a comparison needs no pass over the entries. The writer and every reader keep their own
sums; only digests of them are sent, each bound to its generation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from shared.redis.mirror.integrity.digests import SUMS_MODULO, Digester


class Contents:
    """The summands of all entries, by kind and key."""

    def __init__(self, kinds: Iterable[str] = ()) -> None:
        """``kinds`` exist from the start, without entries."""
        self._held: dict[str, dict[str, int]] = {kind: {} for kind in kinds}
        self._sums: dict[str, int] = {}

    def put(self, kind: str, key: str, summand: int) -> None:
        """Add an entry, or replace the one with this key."""
        held = self._held.setdefault(kind, {})
        added = summand - held.get(key, 0)
        held[key] = summand
        self._sums[kind] = (self._sums.get(kind, 0) + added) % SUMS_MODULO

    def delete(self, kind: str, key: str) -> None:
        """Remove an entry; an unknown one changes nothing."""
        gone = self._held.get(kind, {}).pop(key, 0)
        self._sums[kind] = (self._sums.get(kind, 0) - gone) % SUMS_MODULO

    def counts(self) -> dict[str, int]:
        """Entries by kind."""
        return {kind: len(held) for kind, held in self._held.items()}

    def digests(self, digester: Digester, epoch: str, generation: int) -> dict[str, str]:
        """Kind -> digest of its sum and count, bound to this epoch and generation."""
        return {kind: self._digest(kind, digester, epoch, generation) for kind in self._held}

    def differs(
        self,
        expected: Mapping[str, str],
        kinds: Collection[str],
        digester: Digester,
        epoch: str,
        generation: int,
    ) -> str:
        """The first of ``kinds`` (empty: of all) whose digest is not the writer's ``expected`` one; "" for none."""
        for kind in kinds or sorted({*expected, *self._held}):
            mine = self._digest(kind, digester, epoch, generation)
            if mine != expected.get(kind) and (kind in expected or self._held.get(kind)):
                return kind
        return ""

    def _digest(self, kind: str, digester: Digester, epoch: str, generation: int) -> str:
        held, total = self._held.get(kind, {}), self._sums.get(kind, 0)
        text = f"{epoch}|{generation}|{len(held)}|{total}|{kind}"
        return digester.tag(b"contents", text.encode()).hex()
