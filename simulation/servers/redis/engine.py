"""Executes commands and scripts on the keyspace, and refuses what a full server refuses."""

from __future__ import annotations

from collections.abc import Callable

from simulation.servers.redis.commands import (
    claiming,
    collections,
    groups,
    keys,
    reading,
    sorted_sets,
    streams,
    strings,
)
from simulation.servers.redis.commands.reading import Blocked
from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.registry import COMMANDS, Command
from simulation.servers.redis.resp import (
    OK,
    CommandError,
    Reply,
    number,
)
from simulation.servers.redis.scripts import Scripts

FAMILIES = (claiming, collections, groups, keys, reading, sorted_sets, streams, strings)
"""Importing them has filled ``COMMANDS``."""
REPORTED = frozenset({"xadd", "xack", "xdel", "xtrim", "xclaim", "xgroup|create"})
"""Commands that ``on_command`` is called with: what adds, delivers again, settles and removes messages."""
OnCommand = Callable[[str, list[bytes]], None]

OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'."
DISK_FULL = (
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that "
    "may modify the data set are disabled, because this instance is configured to report errors during writes if RDB "
    "snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB "
    "error."
)


class Engine:
    """``on_command`` gets the name and the arguments of each executed command of ``REPORTED``, in scripts too."""

    def __init__(self, db: Keyspace, on_command: OnCommand | None) -> None:
        self.db = db
        self.out_of_memory = False
        self.disk_full = False
        self._on_command = on_command
        self.scripts = Scripts(self._call_from_script, is_redis_6=db.is_redis_6)
        self._script_has_written = False
        self._scripting: dict[str, Callable[[list[bytes]], Reply]] = {
            "eval": self._eval,
            "evalsha": self._evalsha,
            "script": self._script,
        }

    def check(self, words: list[bytes], *, queues: bool) -> None:
        """What is checked before a command runs, or is queued in a transaction. Raises CommandError."""
        name = words[0].decode(errors="replace").lower()
        if name in self._scripting:
            if len(words) < (2 if name == "script" else 3):
                raise _wrong_number(name)
            needs_memory = writes = False
        else:
            found = _lookup(words, name)
            needs_memory, writes = self._needs_memory(found), found.writes
        if self.out_of_memory and (needs_memory or queues):
            raise CommandError(OUT_OF_MEMORY)
        if self.disk_full and (writes or name == "ping"):
            raise CommandError(DISK_FULL)

    def check_transaction(self, queued: list[list[bytes]]) -> None:
        """Whether EXEC may run what was queued before the server was full. Raises CommandError."""
        for words in queued:
            try:
                self.check(words, queues=False)
            except CommandError as error:
                text = b"EXECABORT Transaction discarded because of: " + error.text
                raise CommandError(text) from None

    def execute(self, words: list[bytes]) -> Reply:
        """One command that ``check`` has passed. Raises CommandError."""
        name = words[0].decode(errors="replace").lower()
        script = self._scripting.get(name)
        if script is not None:
            return script(words[1:])
        return self._run(_lookup(words, name), words)

    def _needs_memory(self, command: Command) -> bool:
        """Redis 6.2 has one answer for all subcommands of XGROUP."""
        in_group = self.db.is_redis_6 and command.name.startswith("xgroup|")
        return command.needs_memory or in_group

    def _run(self, command: Command, words: list[bytes]) -> Reply:
        arguments = words[command.skip :]
        reply = command.function(self.db, arguments)
        if self._on_command is not None and command.name in REPORTED and reply:
            self._on_command(command.name, arguments)
        return reply

    def _call_from_script(self, words: list[bytes]) -> Reply:
        """Raises CommandError."""
        if not words:
            raise CommandError("ERR Please specify at least one argument for this redis.call()")
        try:
            found = _lookup(words, words[0].decode(errors="replace").lower())
        except CommandError as error:
            raise _in_script(error) from None
        # A script that has changed something goes on to its end, or its changes would be half of what it does.
        if self.out_of_memory and self._needs_memory(found) and not self._script_has_written:
            raise CommandError(OUT_OF_MEMORY)
        if self.disk_full and found.writes and not self._script_has_written:
            raise CommandError(DISK_FULL)
        reply = self._run(found, words)
        self._script_has_written |= found.writes
        if isinstance(reply, Blocked):
            text = b"ERR %b command is not allowed with BLOCK option from scripts" % words[0]
            raise CommandError(text)
        return reply

    def _eval(self, words: list[bytes]) -> Reply:
        keys, arguments = _split(words[1:])
        return self._run_script(self.scripts.load(words[0]), keys, arguments)

    def _evalsha(self, words: list[bytes]) -> Reply:
        keys, arguments = _split(words[1:])
        if not self.scripts.known(words[0]):
            raise CommandError("NOSCRIPT No matching script. Please use EVAL.")
        return self._run_script(words[0], keys, arguments)

    def _run_script(self, digest: bytes, keys: list[bytes], arguments: list[bytes]) -> Reply:
        self._script_has_written = False
        return self.scripts.run(digest, keys, arguments)

    def _script(self, words: list[bytes]) -> Reply:
        action = words[0].upper()
        if action == b"LOAD" and len(words) == 2:
            return self.scripts.load(words[1])
        if action == b"EXISTS" and len(words) > 1:
            return [int(self.scripts.known(digest)) for digest in words[1:]]
        if action == b"FLUSH":
            self.scripts.forget()
            return OK
        raise _unknown_subcommand("SCRIPT", words[0])


def _lookup(words: list[bytes], name: str) -> Command:
    """The command of these words. Raises CommandError for an unknown one or a wrong number of words."""
    found = COMMANDS.get(name)
    if found is not None and found.fits(len(words)):
        return found
    if found is None and len(words) > 1 and name in _CONTAINERS:
        name = f"{name}|{words[1].decode(errors='replace').lower()}"
        found = COMMANDS.get(name)
        if found is None:
            raise _unknown_subcommand(name.partition("|")[0].upper(), words[1])
    if found is None:
        if name in _CONTAINERS:
            raise _wrong_number(name)
        shown = b" ".join(b"'%b'" % word[:128] for word in words[1:])
        raise CommandError(
            b"ERR unknown command '%b', with args beginning with: %b%b"
            % (words[0], shown, b" " if shown else b"")
        )
    if not found.fits(len(words)):
        raise _wrong_number(found.name)
    return found


_CONTAINERS = frozenset(name.partition("|")[0] for name in COMMANDS if "|" in name)


def _wrong_number(name: str) -> CommandError:
    return CommandError(f"ERR wrong number of arguments for '{name}' command")


def _unknown_subcommand(name: str, word: bytes) -> CommandError:
    return CommandError(b"ERR unknown subcommand '%b'. Try %b HELP." % (word, name.encode()))


def _in_script(error: CommandError) -> CommandError:
    """The shorter texts that scripts get."""
    if error.text.startswith(b"ERR unknown command"):
        return CommandError("ERR Unknown Redis command called from script")
    if error.text.startswith(b"ERR wrong number"):
        return CommandError("ERR Wrong number of args calling Redis command from script")
    return error


def _split(words: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Keys and arguments of EVAL. Raises CommandError."""
    count = number(words[0])
    if count < 0:
        raise CommandError("ERR Number of keys can't be negative")
    if count > len(words) - 1:
        raise CommandError("ERR Number of keys can't be greater than number of args")
    return words[1 : 1 + count], words[1 + count :]
