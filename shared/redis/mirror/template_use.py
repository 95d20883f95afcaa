"""When any launcher last used a launch template: kept in Redis, for one launcher must not delete what another uses.

Lossy, as all that is in Redis: without the marks a template is deleted too early and made again (LCH-25).
"""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from shared.concurrency.clock import Clock
from shared.redis.bus.connection import ask

UNUSED_SECONDS = 60.0
"""LCH-90: how long after its last use a template is deleted."""


@dataclass
class TemplateUse:
    """When any launcher used a template last, in Redis, as long as that counts."""

    redis: Redis
    prefix: str
    clock: Clock

    async def mark(self, name: str) -> None:
        """Now."""
        kept = ("EX", int(2 * UNUSED_SECONDS))
        await ask(self.redis, "mark a template", "SET", self._key(name), self.clock.now(), *kept)

    async def is_recent(self, name: str) -> bool:
        """Within ``UNUSED_SECONDS``?"""
        said: bytes | None = await ask(self.redis, "read a mark", "GET", self._key(name))
        return said is not None and self.clock.now() - float(said) < UNUSED_SECONDS

    def _key(self, name: str) -> str:
        return f"{self.prefix}launch-template:{name}"
