"""One consumer of one consumer group: the stream commands, with one reply shape for Redis 6.2 and
7.

New entries are read on a connection of its own, because a blocked read would delay all other commands. All other
commands share the pool. An entry that was deleted while pending comes back as nil from 6.2 and not at all from 7; both
are recognised here, acknowledged, so that a dangling id never holds up the trimming.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from shared.errors import Unavailable
from shared.redis.bus.connection import blocking_call, call, pairs, redis_errors

HAND_OVER_IDLE_MILLISECONDS = 3_600_000
"""Idle time that a handed-over entry is given: longer than any consumer's minimum, so it can be claimed at once."""
PENDING_PAGE = 1000

_DELETE_CONSUMER = """
-- XGROUP DELCONSUMER discards the consumer's pending entries, so check that it has none (F6).
if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local info = {}
  for i = 1, #consumer, 2 do info[consumer[i]] = consumer[i + 1] end
  if info['name'] == ARGV[2] and info['pending'] == 0 and info['idle'] >= tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
    return 1
  end
end
return 0
"""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One entry delivered to this consumer. ``deliveries`` counts over all consumers, this delivery included."""

    entry_id: str
    fields: dict[bytes, bytes]
    deliveries: int


@dataclass(frozen=True, slots=True)
class Peer:
    """A consumer name of the group as Redis knows it."""

    name: str
    pending: int


@dataclass(eq=False)
class ConsumerGroup:
    """Commands of consumer ``name`` in ``group`` on ``stream_key``.

    All raise TransientError, Unauthorized or GroupMissing.
    """

    commands: Redis
    reader: Redis
    stream_key: str
    group: str
    name: str
    heartbeat_prefix: str

    def __post_init__(self) -> None:
        self._delete_consumer = self.commands.register_script(_DELETE_CONSUMER)

    async def create(self) -> bool:
        """Create the group (and the stream) at entry 0. False when it exists already."""
        try:
            command = ("XGROUP", "CREATE", self.stream_key, self.group, "0", "MKSTREAM")
            await call(self.commands, "create a group", *command)
        except Unavailable as error:
            if "BUSYGROUP" in error.message:
                return False
            raise
        return True

    async def read_new(self, count: int, block_milliseconds: int) -> list[Delivery]:
        """Up to ``count`` entries that no consumer of the group has received; waits for the first one."""
        consumer = ("GROUP", self.group, self.name, "COUNT", count, "BLOCK", block_milliseconds)
        command = ("XREADGROUP", *consumer, "STREAMS", self.stream_key, ">")
        reply = await blocking_call(self.reader, "read the stream", block_milliseconds, *command)
        entries = reply[0][1] if reply else []
        return [Delivery(entry_id.decode(), pairs(flat), 1) for entry_id, flat in entries]

    async def pending_of(self, consumer: str) -> list[str]:
        """Ids that ``consumer`` received and did not acknowledge, at most a page, oldest first."""
        command = ("XPENDING", self.stream_key, self.group, "-", "+", PENDING_PAGE, consumer)
        reply = await call(self.commands, "list pending entries", *command)
        return [item[0].decode() for item in reply]

    async def claim_idle(
        self, min_idle_milliseconds: int, cursor: str, count: int
    ) -> tuple[str, list[str]]:
        """One XAUTOCLAIM step: the next cursor, and the ids claimed. JUSTID leaves the delivery counts unchanged."""
        options = (min_idle_milliseconds, cursor, "COUNT", count, "JUSTID")
        command = ("XAUTOCLAIM", self.stream_key, self.group, self.name, *options)
        reply = await call(self.commands, "claim idle entries", *command)
        # Redis 7 removes deleted entries from the pending list and returns their ids as a third element: not needed.
        return reply[0].decode(), [entry_id.decode() for entry_id in reply[1]]

    async def claim_now(self, ids: Sequence[str]) -> None:
        """Claim ``ids`` whatever their idle time; resets the idle time of entries already held (F5)."""
        if ids:
            claim = ("XCLAIM", self.stream_key, self.group, self.name, 0)
            await call(self.commands, "claim entries", *claim, *ids, "JUSTID")

    async def take(self, ids: Sequence[str]) -> list[Delivery]:
        """The still pending entries of ``ids``, with their fields. Counts as one more delivery.

        Entries that were deleted while pending are acknowledged.
        """
        if not ids:
            return []
        pipeline = self.commands.pipeline(transaction=False)
        for entry_id in ids:
            pipeline.execute_command("XPENDING", self.stream_key, self.group, entry_id, entry_id, 1)
        pipeline.execute_command("XCLAIM", self.stream_key, self.group, self.name, 0, *ids)
        async with redis_errors("take over entries"):
            *pages, claimed = await pipeline.execute()
        counts = {item[0]: int(item[3]) for page in pages for item in page}
        # Redis 6.2 answers nil for an entry that was deleted while pending; Redis 7 leaves it out.
        deliveries = [
            Delivery(entry[0].decode(), pairs(entry[1]), counts.get(entry[0], 0) + 1)
            for entry in claimed
            if entry is not None
        ]
        present = {delivery.entry_id for delivery in deliveries}
        vanished = [key.decode() for key in counts if key.decode() not in present]
        await self.acknowledge(vanished)
        return deliveries

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """XACK in one plain command: a transaction is refused when Redis is full (F10)."""
        if ids:
            await call(self.commands, "acknowledge", "XACK", self.stream_key, self.group, *ids)

    async def beat(self, count: int, lifetime_seconds: float) -> None:
        """Write this consumer's heartbeat. ``count`` must differ from the previous one."""
        command = ("SET", self._heartbeat_key(self.name), count, "PX")
        await call(self.commands, "write the heartbeat", *command, round(lifetime_seconds * 1000))

    async def peers(self) -> tuple[list[Peer], dict[str, bytes | None]]:
        """The other consumer names, and the last heartbeat of each."""
        command = ("XINFO", "CONSUMERS", self.stream_key, self.group)
        infos = [pairs(flat) for flat in await call(self.commands, "list consumers", *command)]
        peers = [Peer(info[b"name"].decode(), int(info[b"pending"])) for info in infos]
        others = [peer for peer in peers if peer.name != self.name]
        if not others:
            return [], {}
        keys = [self._heartbeat_key(peer.name) for peer in others]
        beats = await call(self.commands, "read heartbeats", "MGET", *keys)
        return others, {peer.name: beat for peer, beat in zip(others, beats, strict=True)}

    async def forget(self, consumer: str, idle_seconds: float) -> bool:
        """Delete a consumer that has no pending entries and no heartbeat, and was idle for ``idle_seconds``."""
        async with redis_errors("forget a consumer"):
            removed = await self._delete_consumer(
                keys=[self.stream_key, self._heartbeat_key(consumer)],
                args=[self.group, consumer, round(idle_seconds * 1000)],
            )
        return bool(removed)

    async def hand_over(self) -> int:
        """Make the entries that are still ours claimable at once, and end the heartbeat (F29). Returns how many."""
        ids = await self.pending_of(self.name)
        if ids:
            idle = ("IDLE", HAND_OVER_IDLE_MILLISECONDS, "JUSTID")
            claim = ("XCLAIM", self.stream_key, self.group, self.name, 0)
            await call(self.commands, "hand over", *claim, *ids, *idle)
        await call(self.commands, "end the heartbeat", "DEL", self._heartbeat_key(self.name))
        if not ids:
            await self.forget(self.name, 0)
        return len(ids)

    def _heartbeat_key(self, consumer: str) -> str:
        return f"{self.heartbeat_prefix}{consumer}"
