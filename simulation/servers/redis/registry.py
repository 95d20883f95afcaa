"""The table of commands: name, number of words, what the command may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.resp import Reply

Function = Callable[[Keyspace, list[bytes]], Reply]
"""Gets the words after the name, or after the subcommand."""


@dataclass(frozen=True, slots=True)
class Command:
    """``arity`` is that of ``COMMAND INFO``: words with the name, negative for a minimum."""

    name: str
    arity: int
    function: Function
    writes: bool
    needs_memory: bool
    """Refused while Redis is out of memory."""
    skip: int
    """Words before the arguments: 1, or 2 with a subcommand."""

    def fits(self, words: int) -> bool:
        """Whether the number of words is right."""
        return words == self.arity or (self.arity < 0 and words >= -self.arity)


COMMANDS: dict[str, Command] = {}
"""By the name in lower case; a subcommand is ``xinfo|stream``, as in ``shared.redis.rights``."""


def command(
    name: str, arity: int, *, writes: bool = False, needs_memory: bool = False
) -> Callable[[Function], Function]:
    """Register a function as the command ``name``."""

    def register(function: Function) -> Function:
        skip = 2 if "|" in name else 1
        COMMANDS[name] = Command(name, arity, function, writes or needs_memory, needs_memory, skip)
        return function

    return register
