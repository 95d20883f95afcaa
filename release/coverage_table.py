"""``python -m release.coverage_table COVERAGE.json OUTPUT.md``: the coverage of each part, as a document.

A part is a package of a service, of ``shared``, ``local`` or ``cli``. Lines and branches count alike.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BAR = 85
HEAD = """# What the tests run

`make coverage` writes this page. It counts the lines and branches that the small tests run, in pytest's workers and in
the processes that tests start. The end-to-end tests, which run most of `cli/demo`, `cli/drill` and `cli/stack`, are not
counted. A part below {bar} % is printed in bold.

| part | statements | branches | covered |
|---|---|---|---|
"""
FIGURES = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def part_of(path: str) -> str:
    """``shared/api/schema/pods.py`` is of ``shared/api``; ``cli/main.py`` is of ``cli``."""
    folders = path.split("/")[:-1]
    return "/".join(folders[:2])


def parts(report: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """What coverage counted, by part."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path, one in report["files"].items():
        found[part_of(path)].update({name: one["summary"].get(name, 0) for name in FIGURES})
    return dict(sorted(found.items()))


def percent(counted: Mapping[str, int]) -> float:
    """Of statements and branches together; a part without any is covered."""
    all_of_them = counted["num_statements"] + counted["num_branches"]
    done = counted["covered_lines"] + counted["covered_branches"]
    return 100 * done / all_of_them if all_of_them else 100.0


def document(report: Mapping[str, Any]) -> str:
    """The whole page."""
    found = parts(report)
    total = sum(found.values(), Counter[str]())
    rows = [_row(name, counted) for name, counted in found.items()]
    return HEAD.format(bar=BAR) + "".join([*rows, _row("all", total)])


def _row(name: str, counted: Mapping[str, int]) -> str:
    share = percent(counted)
    shown = f"{share:.1f} %" if share >= BAR else f"**{share:.1f} %**"
    return f"| {name} | {counted['num_statements']:,} | {counted['num_branches']:,} | {shown} |\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(document(json.loads(Path(sys.argv[1]).read_text())))
