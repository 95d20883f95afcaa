"""Texts that several commands print: JSON, counts, and text of unknown origin."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import typer


def counted(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def escaped(text: str) -> str:
    """The text with every control and direction character escaped, so that no terminal acts on it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_json(value: Any) -> None:
    """Print JSON without colours: FORCE_COLOR must not make it unreadable for programs."""
    typer.echo(indented(value))


def indented(value: Any) -> str:
    """The same as ``json.dumps(value, indent=2)``, in a third of the time: Python's indenting encoder is slow."""
    written = json.dumps(value)
    try:
        return msgspec.json.format(written, indent=2)
    except (
        msgspec.DecodeError,
        RecursionError,
    ):  # it holds what JSON has no number for, such as NaN
        return json.dumps(value, indent=2)
