"""Which behaviours docs/spec defines, and who cites them.

``python -m tests.support.texts.citations`` (``make spec``) writes docs/spec/uncited.md: the behaviours that no test
cites.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
SPEC = PROJECT / "docs" / "spec"
UNCITED = SPEC / "uncited.md"
ITEM = re.compile(r"^- \*\*(?P<id>[A-Z]+-?\d+)\*\*\s+(?P<text>.+(?:\n  .+)*)", re.MULTILINE)
"""A behaviour, as docs/spec writes it: an item of a list that begins with its ID."""
AREAS = "ACC|API|BAT|CON|DIS|DRF|EC|EVT|EXE|GAT|HELM|IAM|INT|IT|KEY|LCH|MAP|MET|M|NC|NO|NP|OPS|POD|P|RBAC|SCH|SVC|TRM|T"
_ID = rf"(?:(?:{AREAS})-\d{{2,3}}|[FRI]\d{{1,2}})"
CITATION = re.compile(
    rf"(?<![\w.-])(?P<id>{_ID})(?:(?:\.\.|-| to )(?P<last>{_ID}|\d{{2,3}}))?(?![\w-])"
)
"""One ID, or a range such as ``LCH-20..LCH-24`` or ``F2-F13``."""
ELSEWHERE = re.compile(
    r"\b[Ss]cenarios? \d|\b(?:area|areas|[Dd]esign,? section|[Rr]eliability section) \d"
    r"|\b[Tt]able \d\.\d|behaviour\.md|packing\.md"
)
"""A citation of a document that is not in the repository."""
WORDS = 8
"""So many of a behaviour are enough to recognise it."""


def defined() -> dict[str, str]:
    """Text by ID, in the order of the pages. Raises ValueError for an ID that is defined twice."""
    found: dict[str, str] = {}
    for page in sorted(SPEC.glob("*.md")):
        if page == UNCITED:
            continue
        for item in ITEM.finditer(page.read_text()):
            if item["id"] in found:
                raise ValueError(f"{page.name} defines {item['id']} a second time")
            found[item["id"]] = " ".join(item["text"].split())
    return found


def ends(text: str) -> Iterator[tuple[str, str]]:
    """First and last ID of each citation in a text; they are equal where one ID is cited alone."""
    for found in CITATION.finditer(text):
        first, last = found["id"], found["last"] or found["id"]
        area = re.sub(r"\d+$", "", first)
        yield first, area + last if last.isdigit() else last


def cited(text: str, known: Iterable[str]) -> set[str]:
    """The known IDs that a text cites; ranges cite what is between their ends."""
    by_place = {_place(id_): id_ for id_ in known}
    return {
        by_place[area, number]
        for first, last in set(ends(text))
        for area, begin in [_place(first)]
        for number in range(begin, _place(last)[1] + 1)
        if (area, number) in by_place
    }


def _place(id_: str) -> tuple[str, int]:
    area, number = re.findall(r"[A-Z]+|\d+", id_)
    return area, int(number)


def sources(*folders: str) -> list[Path]:
    """The files of the project that may cite behaviours, all of them or those in some folders."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = (PROJECT / line for line in listed.stdout.splitlines())
    return [
        path
        for path in names
        if path.is_file() and path != UNCITED and path.suffix in {".py", ".md", ".yaml", ".toml"}
    ]


def uncited_page() -> str:
    """docs/spec/uncited.md as it should be."""
    known = defined()
    text = "\n".join(path.read_text() for path in sources("tests"))
    missing = known.keys() - cited(text, known)
    rows = [f"| {id_} | {_short(known[id_])} |" for id_ in known if id_ in missing]
    return "\n".join(
        [
            "# What no test cites",
            "",
            f"{len(missing)} of {len(known)} behaviours. `make spec` writes this page.",
            "A behaviour without citation may be tested all the same.",
            "",
            "| ID | begins with |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def _short(text: str) -> str:
    return " ".join(text.replace("*", "").replace("|", "\\|").split()[:WORDS])


if __name__ == "__main__":
    UNCITED.write_text(uncited_page())
