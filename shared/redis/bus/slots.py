"""The entries a consumer has in its hands: being handled, or handled and waiting for their
acknowledgement.

An entry keeps its slot until Redis has confirmed the XACK. So back-pressure covers lost
acknowledgements too, and an entry whose acknowledgement was lost is acknowledged again instead of
being handled again.
"""

from __future__ import annotations

import asyncio


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
        """All ids in hand."""
        return sorted(self._held)

    def hold(self, entry_id: str) -> None:
        """Occupy a slot."""
        self._held.add(entry_id)

    def settle(self, entry_id: str) -> None:
        """The entry is done with: acknowledge it, then free its slot."""
        self._settled.append(entry_id)
        self._to_acknowledge.set()

    def release(self, entry_id: str) -> None:
        """Give the slot back without acknowledging: the entry stays pending."""
        self._held.discard(entry_id)
        self._freed.set()

    async def next_settled(self) -> list[str]:
        """Wait for settled entries. They stay in hand until ``acknowledged``."""
        await self._to_acknowledge.wait()
        return self.settled()

    def settled(self) -> list[str]:
        """Settled entries that wait for their acknowledgement, without waiting."""
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
        try:
            async with asyncio.timeout(seconds):
                await self._freed.wait()
        except TimeoutError:
            return
