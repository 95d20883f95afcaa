"""Prometheus text of gauges with very many series, for which the client library is too slow: seconds for 30,000 lines.

A row is a label text, made once by ``labelled`` for all metrics of the same object, and a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.metrics.declaring import Declared

Rows = Iterable[tuple[str, float]]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def labelled(names: Sequence[str], values: Iterable[str]) -> str:
    """``a="x",b="y"``; values may contain any characters."""
    pairs = zip(names, values, strict=True)
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)


def block(declared: Declared, rows: Rows) -> str:
    """All series of one gauge; a row with an empty label text has no labels."""
    name = declared.name
    lines = [f"# HELP {name} {declared.text}", f"# TYPE {name} gauge"]
    lines += [
        f"{name}{{{labels}}} {value}" if labels else f"{name} {value}" for labels, value in rows
    ]
    # No further copies: copying megabytes holds the interpreter lock and delays the event loop.
    lines.append("")
    return "\n".join(lines)
