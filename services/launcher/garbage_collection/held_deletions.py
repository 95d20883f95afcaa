"""Reports deletions that are held back because a list seems wrong (F23).

Reported once in the log as an error, as an event on the pool, and as a gauge for as long as it lasts. Nothing goes on
by itself: somebody must check, and delete by hand what is really garbage.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from services.launcher.ports import Ports
from shared.api.core.references import to_object
from shared.errors import DovetailError
from shared.kube.resources import NODE_POOLS, PROVISIONERS
from shared.log import get_logger

log = get_logger(__name__)

POOLS = {"NodePool": NODE_POOLS, "Provisioner": PROVISIONERS}
EVENT_SECONDS = 600.0
SHOWN = 10
ANY_POOL = ""


@dataclass
class HeldDeletions:
    """What is held back now, by (direction, pool)."""

    ports: Ports
    held: dict[tuple[str, str], str] = field(default_factory=dict)

    async def hold(self, direction: str, pool: str, names: Collection[str], why: str) -> None:
        """``direction``: what would have been deleted. ``pool`` is a key such as ``NodePool/a``, or empty for all."""
        text = f"deleting none of {len(names)} {direction}: {why}"
        shown = sorted(names)[:SHOWN]
        if (direction, pool) not in self.held:
            log.error("deletions held back", what=text, pool=pool, names=shown)
        self.held[direction, pool] = text
        self.ports.metrics.deletions_held.labels(direction, pool).set(len(names))
        await self._publish(pool, f"{text} ({', '.join(shown)})")

    def release(self, direction: str, pools: Collection[str] = ()) -> None:
        """Deletions go on in this direction, except in ``pools``."""
        for held in [h for h in self.held if h[0] == direction and h[1] not in pools]:
            log.info("deletions are no longer held back", direction=held[0], pool=held[1])
            del self.held[held]
            self.ports.metrics.deletions_held.labels(*held).set(0)

    async def _publish(self, pool: str, text: str) -> None:
        kind, _, name = pool.partition("/")
        if kind not in POOLS:
            return
        try:
            raw = await self.ports.kube.get(POOLS[kind], name)
        except DovetailError:
            return  # a pool that is gone has nobody who reads its events; the log and the gauge say it
        await self.ports.recorder.publish(
            to_object(raw), "Warning", "DeletionsHeld", text, dedupe_seconds=EVENT_SECONDS
        )
