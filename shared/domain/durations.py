"""Durations in Go's notation, as in the settings of Karpenter: ``1.5s``, ``250ms``, ``1m30s``."""

from __future__ import annotations

import re

_NUMBER = r"(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)"
PATTERN = rf"(?:{_NUMBER}(?:ns|us|µs|ms|s|m|h))+"
_PART = re.compile(rf"({_NUMBER})(ns|us|µs|ms|s|m|h)")
_WHOLE = re.compile(PATTERN)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST_TEXT = 64


def go_duration_seconds(text: str) -> float | None:
    """Seconds of a duration of zero or more, None for any other text. ``0`` needs no unit."""
    if text == "0":
        return 0.0
    if len(text) > LONGEST_TEXT or not _WHOLE.fullmatch(text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
