"""What Redis holds, read from the server itself and not through any connection of the services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.redis.bus.connection import key_prefix, pairs

if TYPE_CHECKING:
    from simulation.world import World

Command = Callable[..., Any]
"""Carries out one command, given as words, and returns Redis' reply."""


class Group(NamedTuple):
    """One consumer group: entries that were delivered and not acknowledged, and whether any was never delivered."""

    name: str
    pending: int
    has_unread: bool


def of_world(world: World) -> Command:
    """Commands on the simulated server."""
    command: Command = world.redis.execute
    return command


def prefix_of(world: World) -> str:
    """The prefix of every key of the simulated cluster."""
    return key_prefix(world.emulator.settings.cluster_name)


@dataclass(frozen=True)
class RedisContents:
    """``command_of`` finds the server of a world."""

    command_of: Callable[[World], Command] = of_world

    def hash(self, world: World, key: str) -> Mapping[bytes, bytes]:
        """The fields of a hash; empty for none."""
        return pairs(self.command_of(world)("HGETALL", key))

    def text(self, world: World, key: str) -> bytes:
        """A string; empty for none."""
        return bytes(self.command_of(world)("GET", key) or b"")

    def length(self, world: World, key: str) -> int:
        """Entries of a stream."""
        return int(self.command_of(world)("XLEN", key))

    def size(self, world: World, key: str) -> int:
        """Members of a sorted set."""
        return int(self.command_of(world)("ZCARD", key))

    def keys(self, world: World) -> int:
        """Keys of the whole server."""
        return int(self.command_of(world)("DBSIZE"))

    def groups(self, world: World, key: str) -> list[Group]:
        """The groups of a stream; none of a stream that does not exist."""
        command = self.command_of(world)
        if not command("EXISTS", key):
            return []
        newest = command("XREVRANGE", key, "+", "-", "COUNT", 1)
        last = newest[0][0] if newest else b"0-0"
        found = []
        for row in command("XINFO", "GROUPS", key):
            info = pairs(row)
            unread = _number(info[b"last-delivered-id"]) < _number(last)
            found.append(Group(info[b"name"].decode(), int(info[b"pending"]), unread))
        return found


def _number(entry_id: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = entry_id.partition(b"-")
    return int(milliseconds), int(sequence)
