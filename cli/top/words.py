"""Words that several views share. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from rich.text import Text

from cli.top.cells import age, dollars

_CAUSE = re.compile(r"\(([^()]+)\)(?=$|[;,] incompatible)")


def clock(at: float) -> str:
    """``16:00:00``, in UTC."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):  # no year of the calendar
        return "??:??:??"


def hourly(price: float | None) -> str:
    """``$1.2000/h``."""
    return f"${dollars(price)}/h"


def ago(seconds: float | None) -> str:
    """``5m ago``; ``never`` for None."""
    return "never" if seconds is None else "now" if seconds < 1 else f"{age(seconds)} ago"


def verdict(good: bool, yes: str, no: str) -> Text:
    """One of two words, in the colour of good or bad."""
    return Text(yes, style="green") if good else Text(no, style="bold red")


def heading(text: str) -> Text:
    """The name of a part."""
    return Text(text, style="bold")


def cause_of(verdict: str) -> str:
    """What is wrong, without what was looked for: a reason of one pool ends in its cause, in brackets."""
    causes = dict.fromkeys(_CAUSE.findall(verdict))
    return "; ".join(causes) or verdict
