"""The words of stream commands: ids and ranges of ids."""

from __future__ import annotations

from simulation.servers.redis.resp import CommandError
from simulation.servers.redis.values.stream import HIGHEST, LIMIT, LOWEST, Id

INVALID_ID = "ERR Invalid stream ID specified as stream command argument"


def parse_id(word: bytes, missing_sequence: int = 0, *, strict: bool = True) -> Id:
    """``ms-seq`` or ``ms``; ``-`` and ``+`` too unless ``strict``. Raises CommandError."""
    if not strict and word in (b"-", b"+"):
        return LOWEST if word == b"-" else HIGHEST
    milliseconds, dash, sequence = word.partition(b"-")
    return Id(_part(milliseconds), _part(sequence) if dash else missing_sequence)


def _part(word: bytes) -> int:
    if not word.isdigit() or (word[:1] == b"0" and word != b"0") or int(word) > LIMIT:
        raise CommandError(INVALID_ID)
    return int(word)


def parse_start(word: bytes) -> Id:
    """The first id of a range; ``(id`` excludes it. Raises CommandError."""
    if word[:1] != b"(":
        return parse_id(word, 0, strict=False)
    start = parse_id(word[1:], 0)
    if start == HIGHEST:
        raise CommandError("ERR invalid start ID for the interval")
    return start.after()


def parse_end(word: bytes) -> Id:
    """The last id of a range; ``(id`` excludes it. Raises CommandError."""
    if word[:1] != b"(":
        return parse_id(word, LIMIT, strict=False)
    end = parse_id(word[1:], LIMIT)
    if end == LOWEST:
        raise CommandError("ERR invalid end ID for the interval")
    return end.before()
