"""The rule files, read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.metrics.promql import SERVED, named

PROJECT = Path(__file__).resolve().parents[3]
FOLDER = PROJECT / "deploy" / "observability"
FILES = sorted((FOLDER / "rules").glob("*.yaml"))


def rules() -> Iterator[dict[str, Any]]:
    """Every rule of every file."""
    for file in FILES:
        for group in yaml.safe_load(file.read_text())["groups"]:
            yield from group["rules"]


RULES = list(rules())
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {
    rule["record"]: named(rule["expr"]).grouped - {"le"} for rule in RULES if "record" in rule
}
"""Name of a recorded series -> its labels."""
KNOWN = SERVED | RECORDED
