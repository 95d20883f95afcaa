"""Texts that several commands print: counts, and text of unknown origin."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def escaped(text: str) -> str:
    """The text with every control and direction character escaped, so that no terminal acts on it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
