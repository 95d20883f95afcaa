"""Which metrics and labels a PromQL expression names, and Prometheus' own tool for the rest of its grammar."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from shared.metrics import Metrics
from shared.metrics.declaring import HISTOGRAM, SUMMARY

PARTS = {HISTOGRAM: ("_bucket", "_count", "_sum"), SUMMARY: ("", "_count", "_sum")}
OWN_LABELS = {HISTOGRAM: ("le",), SUMMARY: ("quantile",)}
SERVED = {
    one.name + part: {*one.labels, *OWN_LABELS.get(one.kind, ())}
    for one in Metrics("test").declared
    for part in PARTS.get(one.kind, ("",))
}
"""Name of a sample -> its labels."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NAME = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\()(?![\w:])")
_WORDS = {"and", "or", "unless", "offset", "bool", "Inf"}
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None,
    reason="promtool is not on PATH: it is in Debian's package prometheus, and in Prometheus' releases",
)


class Named(NamedTuple):
    """``grouped``: labels of ``by`` and the like; ``matched``: metric and label of each matcher."""

    metrics: set[str]
    grouped: set[str]
    matched: set[tuple[str, str]]


def named(expression: str) -> Named:
    """What a valid expression names."""
    plain = _STRING.sub('""', expression)
    matched = {
        (metric, label)
        for metric, inner in _SELECTOR.findall(plain)
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inner)
    }
    plain = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", plain)
    grouped = {word for inner in _GROUPING.findall(plain) for word in re.findall(r"\w+", inner)}
    rest = re.sub(r"\boffset\s+\w+", " ", _GROUPING.sub(" ", plain))
    return Named({name for name in _NAME.findall(rest) if name not in _WORDS}, grouped, matched)


def faults(expression: str, served: dict[str, set[str]]) -> Iterator[str]:
    """What the expression names and nobody serves. ``served``: as ``SERVED``."""
    found = named(expression)
    if not found.metrics and "vector" not in expression:
        yield f"no metric in {expression}"
    for metric in sorted(found.metrics):
        if metric not in served:
            yield f"no metric {metric}"
            continue
        yield from (
            f"{metric} has no label {label}" for label in sorted(found.grouped - served[metric])
        )
    for metric, label in sorted(found.matched):
        if label not in served.get(metric, {label}):
            yield f"{metric} has no label {label}"


def promtool(*arguments: str | Path) -> str:
    """What it prints. Raises AssertionError with that for a failure."""
    ended = subprocess.run(
        [str(PROMTOOL), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
