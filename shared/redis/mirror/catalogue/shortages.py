"""How often each offering had no capacity of late, shared by all services and kept when they restart.

One hash per half-life counts refusals and interruptions by offering: adding is one atomic increment, and what is old
goes with its hash. Without Redis there is no history, and offerings are ordered by price alone. What other clusters
found (SHORTAGE_STORE) is one value beside the hashes, which the scheduler writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from redis.asyncio import Redis

from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.instance_types.shortages import (
    OfferingKey,
    Shortages,
    decayed,
    shortages_of,
)
from shared.errors import DovetailError
from shared.log import get_logger
from shared.redis.bus.connection import call, pairs, redis_errors
from shared.settings.shortages import ShortageSettings

log = get_logger(__name__)

HALF_LIVES = 8
"""That are kept: what is older counts less than 1/256."""
CHANGING = 2
"""Half-lives that are counted in: the present one, and the one before by services whose clock is late."""
KEPT_SECONDS = 60.0
"""How long what was read of the others is used."""
MOST_SHOWN = 20
SHARED_SECONDS = 3600
"""How long what other clusters found counts after the last look at it."""
MOST_OFFERINGS = 20_000
"""Of one half-life; a region has about 10,000 offerings."""


class ShortageHistory:
    """Never raises: a plan without history is a plan."""

    def __init__(self, redis: Redis, prefix: str, clock: Clock, settings: ShortageSettings) -> None:
        self._redis = redis
        self._prefix = f"{prefix}shortages:"
        self._clock = clock
        self._settings = settings
        self._shared = f"{self._prefix}shared"
        self._shown: Shortages = ()
        self._past: dict[str, dict[str, int]] = {}
        """Counts of half-lives that are over, by key."""
        self._past_until = -math.inf

    async def add(self, offerings: Iterable[OfferingKey]) -> None:
        """Each of these had no capacity just now, or lost it. Reserved ones have a count of their own in EC2."""
        listed = [":".join(one) for one in offerings if one[0] != keys.RESERVED]
        seconds = self._settings.shortage_half_life
        if not listed or not seconds:
            return
        key = self._key(self.numbers()[-1])
        try:
            async with redis_errors("remember shortages"):
                if await self._redis.hlen(key) > MOST_OFFERINGS:
                    return
                async with self._redis.pipeline(transaction=False) as pipe:
                    for member in listed:
                        pipe.hincrby(key, member, 1)
                    pipe.expire(key, int(seconds * (HALF_LIVES + 1)) + 1)
                    await pipe.execute()
        except DovetailError as error:
            log.warning("cannot remember shortages", error=error.message)

    async def scores(self) -> dict[OfferingKey, float]:
        """The decayed number of shortages by offering; empty when Redis does not answer."""
        if not self._settings.shortage_half_life:
            return {}
        try:
            remembered = await self._lately()
        except DovetailError as error:
            log.warning("cannot read shortages", error=error.message)
            return {}
        newest_first = [remembered.get(number, {}) for number in reversed(self.numbers())]
        return _summed(_scores(newest_first), await self._of_others())

    def numbers(self) -> range:
        """Numbers of the half-lives that count, the oldest first."""
        now = int(self._clock.now() // self._settings.shortage_half_life)
        return range(now - HALF_LIVES + 1, now + 1)

    async def counts(self) -> dict[int, dict[str, int]]:
        """What is remembered, by number of the half-life. Raises Unavailable and Unreachable."""
        return await self._read(self.numbers())

    async def _lately(self) -> dict[int, dict[str, int]]:
        """As ``counts``; of half-lives that are over it may be a minute old."""
        past, changing = self.numbers()[:-CHANGING], self.numbers()[-CHANGING:]
        now, keys_of_past = self._clock.monotonic(), [self._key(number) for number in past]
        if now < self._past_until and all(key in self._past for key in keys_of_past):
            held = {n: self._past[key] for n, key in zip(past, keys_of_past, strict=True)}
            return held | await self._read(changing)
        found = await self.counts()
        self._past = {self._key(number): found.get(number, {}) for number in past}
        self._past_until = now + KEPT_SECONDS
        return found

    async def _read(self, numbers: range) -> dict[int, dict[str, int]]:
        async with (
            redis_errors("read shortages"),
            self._redis.pipeline(transaction=False) as pipe,
        ):
            for number in numbers:
                pipe.hgetall(self._key(number))
            answers: list[list[bytes]] = await pipe.execute()
        found = zip(numbers, map(pairs, answers), strict=True)
        return {n: {m.decode(): int(c) for m, c in held.items()} for n, held in found if held}

    async def restore(self, counts: Mapping[int, Mapping[str, int]]) -> None:
        """Add these counts to a Redis that lost them. Raises as ``counts``."""
        self._past_until = -math.inf
        seconds = int(self._settings.shortage_half_life * (HALF_LIVES + 1)) + 1
        async with (
            redis_errors("remember shortages"),
            self._redis.pipeline(transaction=False) as pipe,
        ):
            for number, held in counts.items():
                for member, count in list(held.items())[:MOST_OFFERINGS]:
                    pipe.hincrby(self._key(number), member, count)
                pipe.expire(self._key(number), seconds)
            await pipe.execute()

    async def share(self, scores: Mapping[OfferingKey, float]) -> None:
        """Let all services of this cluster know what other clusters found. Raises as ``counts``."""
        most = sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:MOST_OFFERINGS]
        body = msgspec.json.encode({":".join(offering): score for offering, score in most})
        await call(self._redis, "share shortages", "SET", self._shared, body, "EX", SHARED_SECONDS)

    async def _of_others(self) -> dict[OfferingKey, float]:
        """Nothing where the history is not shared: then no right to read it is needed either."""
        if not self._settings.shortage_store:
            return {}
        try:
            body = await call(self._redis, "read shared shortages", "GET", self._shared)
            found = msgspec.json.decode(body, type=dict[str, float]) if body else {}
        except (DovetailError, msgspec.DecodeError) as error:
            log.warning("cannot read shared shortages", error=str(error))
            return {}
        parts = {tuple(member.split(":", 2)): score for member, score in found.items()}
        return {(p[0], p[1], p[2]): score for p, score in parts.items() if len(p) == 3}

    async def current(self) -> Shortages:
        """What the history adds to prices now."""
        self._shown = shortages_of(await self.scores(), self._settings.shortage_margin)
        return self._shown

    def status(self) -> dict[str, Any]:
        """What was read last, for ``/status``: how many offerings, and the worst of them."""
        worst = sorted(self._shown, key=lambda one: (-one[1], one[0]))[:MOST_SHOWN]
        shown = [{"offering": ":".join(o), "dearerPercent": added / 10_000} for o, added in worst]
        return {"offerings": len(self._shown), "worst": shown}

    def _key(self, number: int) -> str:
        """Another half-life begins a history of its own."""
        return f"{self._prefix}{self._settings.shortage_half_life:g}:{number}"


def _summed(
    first: dict[OfferingKey, float], second: dict[OfferingKey, float]
) -> dict[OfferingKey, float]:
    return {key: first.get(key, 0.0) + second.get(key, 0.0) for key in {**first, **second}}


def _scores(remembered: Sequence[Mapping[str, int]]) -> dict[OfferingKey, float]:
    """``remembered``: count by member, of each half-life, the newest first."""
    found: dict[OfferingKey, float] = {}
    for member in sorted({member for held in remembered for member in held}):
        parts = member.split(":", 2)
        if len(parts) == 3:
            counts = [held.get(member, 0) for held in remembered]
            found[parts[0], parts[1], parts[2]] = decayed(counts)
    return found
