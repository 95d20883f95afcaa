"""The launch back-off of a pool whose machines fail to register (F25).

After three failed registrations in a row the pool may launch one machine after 1 minute, the next after 2, 4, ... 30
minutes, until a machine registers. Failures that arrive while the pool waits belong to the same burst and do not
lengthen the wait. A change of the pool or its class resets the back-off: failures are stored with the ``template`` of
the machine.

The times are those of Redis' clock: launchers and terminators, whose own clocks may be wrong, share them.

What may go wrong: Redis loses its data, and the pool gets three more attempts. Two launchers at once may both take a
slot, which is one launch too many. Each pool has one small key that expires after two hours without a change.
"""

from __future__ import annotations

import asyncio

import msgspec
from redis.asyncio import Redis

from shared.concurrency.backoff import doubled
from shared.concurrency.clock import credible
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.redis.bus.connection import call, server_time

FAILURES_IN_A_ROW = 3
FIRST_WAIT_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 1800.0
BACKOFF_TTL_SECONDS = 7200
"""Longer than the longest wait and a registration timeout together."""
COUNTED_MACHINES_LIMIT = 100
"""Most machines whose failure is kept per pool: about the size of one burst."""
MOST_STEPS = 5
"""Doublings until the longest wait is reached."""


class _Waiting(msgspec.Struct):
    template: str = ""
    failures: int = 0
    steps: int = 0
    until: float = 0.0
    holder: str = ""
    counted: tuple[str, ...] = ()
    """Uids of the machines that failed last: a failure that is reported twice counts once."""


def template_of(machine: Machine) -> str:
    """The hashes of the pool and class that a machine was made from; empty for a machine without any."""
    names = (keys.POOL_HASH, keys.PROVISIONER_HASH, keys.CLASS_HASH, keys.NODE_TEMPLATE_HASH)
    return "|".join(machine.annotations.get(name) or "" for name in names).strip("|")


class LaunchBackoff:
    """Failed registrations by pool, in Redis. Every method raises TransientError while Redis is away."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = f"{prefix}launch-backoff:"
        self._changing = asyncio.Lock()

    async def failed(self, pool_key: str, template: str = "", machine_uid: str = "") -> bool:
        """Count a machine of this pool that failed to register. True when the pool waits from now on.

        A ``machine_uid`` counts once, however often its failure is reported.
        """
        async with self._changing:
            now = await server_time(self._redis)
            known = await self._read(pool_key)
            known = known if known.template == template else _Waiting(template)
            if machine_uid and machine_uid in known.counted:
                return False
            known.counted = (*known.counted, machine_uid)[-COUNTED_MACHINES_LIMIT:]
            known.failures += 1
            begins = known.failures >= FAILURES_IN_A_ROW and known.until == 0.0
            if begins:
                known.until = now + FIRST_WAIT_SECONDS
            await self._write(pool_key, known)
            return begins

    async def succeeded(self, pool_key: str) -> None:
        """A machine of this pool registered: end the back-off."""
        await call(self._redis, "forget failed launches", "DEL", self._prefix + pool_key)

    async def admit(self, pool_key: str, machine_uid: str, template: str = "") -> float:
        """Take the pool's next launch slot for this machine: 0.0 when admitted, else the seconds until the next slot.

        The machine that holds the slot is admitted again until the next slot is due: its launch may need several
        attempts.
        """
        async with self._changing:
            now = await server_time(self._redis)
            known = await self._read(pool_key)
            if known.template != template or known.until == 0.0 or known.holder == machine_uid:
                return 0.0
            if now < _end_of(known, now):
                return known.until - now
            known.steps = min(known.steps + 1, MOST_STEPS)
            wait = doubled(known.steps, first=FIRST_WAIT_SECONDS, cap=LONGEST_WAIT_SECONDS)
            known.until, known.holder = now + wait, machine_uid
            await self._write(pool_key, known)
            return 0.0

    async def _read(self, pool_key: str) -> _Waiting:
        body: bytes | None = await call(
            self._redis, "read failed launches", "GET", self._prefix + pool_key
        )
        try:
            return msgspec.json.decode(body, type=_Waiting) if body else _Waiting()
        except (msgspec.DecodeError, msgspec.ValidationError):
            return _Waiting()

    async def _write(self, pool_key: str, known: _Waiting) -> None:
        await call(
            self._redis, "remember failed launches", "SET", self._prefix + pool_key,
            msgspec.json.encode(known), "EX", BACKOFF_TTL_SECONDS,
        )  # fmt: skip


def _end_of(known: _Waiting, now: float) -> float:
    """Until when the pool waits. The clock that wrote an end beyond the longest wait was wrong."""
    return credible(known.until, now=now + LONGEST_WAIT_SECONDS, otherwise=0.0)
