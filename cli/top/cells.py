"""Texts of cells: untrusted text made harmless, bars, ages and amounts. Pure."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from cli.text import escaped

LONGEST = 500
"""Characters of an untrusted text that are looked at: no terminal shows more of one."""
_LAST_OF_PLANE = "\uffff"
_FULL, _EMPTY = "█", "░"


def safe(text: str) -> str:
    """The text as characters that every terminal shows with the same width.

    Control and direction characters are escaped as everywhere; besides them combining characters and emoji, whose
    width terminals disagree about: a line that is wider than expected would shift the whole picture.
    """
    cut = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    return cut if cut.isascii() and cut.isprintable() else "".join(map(_character, escaped(cut)))


def _character(one: str) -> str:
    if one <= _LAST_OF_PLANE and cell_len(one) > 0:
        return one
    return one.encode("unicode_escape").decode()


def fitted(text: Text, width: int) -> Text:
    """A copy of the text, at most ``width`` cells wide."""
    cut = text.copy()
    cut.truncate(max(width, 0), overflow="ellipsis")
    return cut


def bar(used: int, allocatable: int, cells: int) -> Text:
    """A bar of ``cells`` cells. Requests above what is allocatable fill it."""
    share = cells * used / allocatable if allocatable > 0 else 0
    full = min(cells, max(0, round(share)))
    return Text.assemble(
        (_FULL * full, _load_style(used, allocatable)), (_EMPTY * (cells - full), "dim")
    )


def percent(used: int, allocatable: int) -> Text:
    """Requested of allocatable in percent; a dash when nothing is allocatable yet."""
    if allocatable <= 0:
        return Text("-", style="dim")
    return Text(f"{100 * used // allocatable}%", style=_load_style(used, allocatable))


def _load_style(used: int, allocatable: int) -> str:
    if used > allocatable:
        return "red"
    return "green" if 2 * used >= allocatable else "yellow"


def age(seconds: float) -> str:
    """``97s``, ``5m``, ``3h20m`` or ``4d``; ``0s`` for a negative age, from clocks that disagree.

    Seconds up to two minutes: the notice of a spot instance is so long.
    """
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3_600}h{whole % 3_600 // 60:02}m"
    return f"{whole // 86_400}d"


def dollars(price: float | None) -> str:
    """US dollars an hour without the unit; a question mark when the price is not known."""
    return "?" if price is None else f"{price:.4f}"


def cores(millicores: int) -> str:
    """``250m`` or ``1.5``, as Kubernetes writes CPU."""
    return f"{millicores}m" if abs(millicores) < 1_000 else f"{millicores / 1_000:.10g}"


def mebibytes(size: int) -> str:
    """``256Mi`` or ``1.5Gi``; ``size`` in bytes."""
    return f"{size / 2**20:.0f}Mi" if abs(size) < 2**30 else f"{size / 2**30:.1f}Gi"
