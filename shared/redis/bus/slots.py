"""The entries that a consumer holds: being handled, or handled and not yet acknowledged.

An entry keeps its slot until Redis has confirmed the XACK. So back-pressure covers lost acknowledgements too, and an
entry whose acknowledgement was lost is acknowledged again instead of being handled again.
"""

from __future__ import annotations

import asyncio

from shared.concurrency.waiting import pause


class Slots:
    """At most ``limit`` entries at once. Not thread-safe; lives on one event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: set[str] = set()
        self._settled: list[str] = []
        self._freed = asyncio.Event()
        self._to_acknowledge = asyncio.Event()

    @property
    def free(self) -> int:
        """How many more entries fit."""
        return max(0, self._limit - len(self._held))

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._held

    def held(self) -> list[str]:
        """All held ids, sorted."""
        return sorted(self._held)

    def hold(self, entry_id: str) -> None:
        """Occupy a slot."""
        self._held.add(entry_id)

    def settle(self, entry_id: str) -> None:
        """Mark the entry as handled: it is acknowledged next, and then its slot is free."""
        self._settled.append(entry_id)
        self._to_acknowledge.set()

    def release(self, entry_id: str) -> None:
        """Free the slot without an acknowledgement: the entry stays pending."""
        self._held.discard(entry_id)
        self._freed.set()

    async def next_settled(self) -> list[str]:
        """Wait for settled entries. They keep their slots until ``acknowledged``."""
        await self._to_acknowledge.wait()
        return self.settled()

    def settled(self) -> list[str]:
        """Entries that wait for their acknowledgement now."""
        return list(self._settled)

    def acknowledged(self, ids: list[str]) -> None:
        """Redis has confirmed ``ids``."""
        confirmed = set(ids)
        self._held -= confirmed
        self._settled = [entry_id for entry_id in self._settled if entry_id not in confirmed]
        if not self._settled:
            self._to_acknowledge.clear()
        self._freed.set()

    async def wait_for_free(self, seconds: float) -> None:
        """Return when a slot was freed, or after ``seconds``."""
        self._freed.clear()
        await pause(self._freed, seconds)
