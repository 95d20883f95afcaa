"""Keeps the history of shortages beside Redis, gives it back to one that lost it, and shares it with other clusters.

The history is a hint: nothing here stops a plan. What is written is the whole of what Redis has, once a minute if it
changed; so at most the last minute is lost with Redis.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.concurrency.clock import Clock
from shared.domain.instance_types.shortage_records import (
    FOLDER,
    ShortageRecord,
    decoded,
    encoded,
    record_name,
    scores_of,
)
from shared.errors import DovetailError, NotFound
from shared.log import get_logger
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.runtime.archive.opening import open_store
from shared.runtime.archive.store import Store
from shared.runtime.environment import Environment
from shared.settings import SchedulerSettings

log = get_logger(__name__)

STEP_SECONDS = 60.0
MOST_CLUSTERS = 50
"""Whose histories are read."""


@dataclass
class ShortageKeeper:
    """``shares``: other clusters keep theirs in the same store on purpose."""

    store: Store
    cluster: str
    history: ShortageHistory
    half_life: float
    clock: Clock
    shares: bool
    _kept: dict[int, dict[str, int]] | None = None
    """As the store has it; None before it was read."""
    _reported: str = ""
    """The problem that was logged last."""

    async def step(self) -> None:
        """Restore what Redis lost, write what is new, read what others have."""
        try:
            await self._keep()
            if self.shares:
                await self._read_others()
        except DovetailError as error:
            if error.message != self._reported:
                log.warning("the history of shortages is not kept", error=error.message)
            self._reported = error.message
        else:
            self._reported = ""

    async def _keep(self) -> None:
        if self._kept is None:
            self._kept = await self._read()
        counts = await self.history.counts()
        current = self.history.numbers()
        lost = {n: held for n, held in self._kept.items() if n in current and n not in counts}
        if lost:
            log.info("shortages are remembered again", offerings=sum(map(len, lost.values())))
            await self.history.restore(lost)
        whole = {**lost, **counts}
        if whole != self._kept:
            record = ShortageRecord.of(self.cluster, self.half_life, whole)
            await self.store.put(record_name(self.cluster), encoded(record))
            self._kept = whole

    async def _read(self) -> dict[int, dict[str, int]]:
        """Nothing for a history of another half-life: its numbers mean other times."""
        try:
            found = decoded(await self.store.get(record_name(self.cluster)))
        except NotFound:
            return {}
        same = found is not None and found.half_life == self.half_life
        return found.numbered() if found is not None and same else {}

    async def _read_others(self) -> None:
        listed = await self.store.listing(f"{FOLDER}/")
        mine = record_name(self.cluster)
        names = [one.name for one in listed if one.name != mine][:MOST_CLUSTERS]
        records = []
        for name in names:
            try:
                found = decoded(await self.store.get(name))
            except NotFound:
                continue
            if found is None:
                log.debug("cannot read the shortages of another cluster", name=name)
            elif found.half_life > 0:
                records.append(found)
        scores = scores_of(records, now=self.clock.now(), half_life=self.half_life)
        await self.history.share(scores)


def keeper_of(
    env: Environment[SchedulerSettings], history: ShortageHistory
) -> ShortageKeeper | None:
    """None where nothing is remembered, or there is nowhere to keep it."""
    settings = env.settings
    address = settings.shortage_store or settings.record_store
    if not (address and settings.shortage_half_life):
        return None
    return ShortageKeeper(
        store=open_store(address, endpoint_url=settings.record_endpoint_url),
        cluster=settings.cluster_name,
        history=history,
        half_life=settings.shortage_half_life,
        clock=env.clock,
        shares=bool(settings.shortage_store),
    )
