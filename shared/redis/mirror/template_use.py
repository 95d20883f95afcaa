"""The time of the last use of each launch template, in Redis: a launcher must not delete a template that another uses.

When Redis loses its data, a template may be deleted too early and is created again (LCH-25).
"""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from shared.redis.bus.connection import call

UNUSED_SECONDS = 60.0
"""A template is deleted this long after its last use (LCH-90)."""


@dataclass
class TemplateUse:
    """The last use of each template by any launcher."""

    redis: Redis
    prefix: str

    async def record(self, name: str) -> None:
        """Record a use of the template now."""
        key, expiry = self._key(name), ("EX", int(UNUSED_SECONDS))
        await call(self.redis, "record a template use", "SET", key, "", *expiry)

    async def is_recent(self, name: str) -> bool:
        """Whether the template was used within ``UNUSED_SECONDS``."""
        found: bytes | None = await call(self.redis, "read a template use", "GET", self._key(name))
        return found is not None

    def _key(self, name: str) -> str:
        return f"{self.prefix}launch-template:{name}"
