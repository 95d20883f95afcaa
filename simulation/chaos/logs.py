"""What the log of a service shows of its process: errors that nobody handled, and ends that nobody ordered. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

UNHANDLED = ("was never retrieved", "Exception in callback", "exception in shielded future")
"""Words with which asyncio reports an exception that no code looked at."""
CRASH = "Traceback (most recent call last)"
"""A line that begins so was printed by the interpreter; our own log lines are JSON."""
UNREACHABLE = ("cannot reach", "lets nobody in by this name")
"""Words of the message with which a service ends that finds no server at its start. Its supervisor starts it again."""
SHOWN_CHARACTERS = 300


def unseen_errors(lines: Iterable[str]) -> list[str]:
    """The lines that report one."""
    return [
        line[:SHOWN_CHARACTERS]
        for line in lines
        if line.startswith(CRASH) or any(words in line for words in UNHANDLED)
    ]


def unordered_ends(name: str, starts: int, ordered: int, lines: Sequence[str]) -> list[str]:
    """Why more starts were needed than ends were ordered: a sentence, or none."""
    refused = sum(
        line.startswith(f"dovetail {name}: ") and any(words in line for words in UNREACHABLE)
        for line in lines
    )
    if starts <= ordered + refused:
        return []
    return [f"{name} was started {starts} times again, and its end was ordered {ordered} times"]
