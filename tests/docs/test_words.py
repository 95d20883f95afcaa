"""Words that the glossary replaces do not come back, in names or in prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.texts.citations import PROJECT, sources

GLOSSARY = PROJECT / "docs" / "glossary.md"
HEADING = "## Words that are not used"
SELF = (GLOSSARY, Path(__file__))
ALLOWED = {
    # Values of a metric label, which dashboards and alerts use.
    ("ghost", "services/watcher/mirror/comparison.py"),
    ("ghost", "docs/operating/metrics.md"),
    ("ghost", "docs/development/architecture.md"),
}
"""(word, file): uses that are a contract."""
SKIPPED = ("docs/spec/", "tests/", "bench/")
"""Folders that are not searched: the specification quotes Karpenter; tests name objects freely."""


def unwanted_words() -> list[str]:
    """All words of the first column of the glossary's last table."""
    table = GLOSSARY.read_text().partition(HEADING)[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    return [word.strip() for cell in rows if cell.strip() != "not" for word in cell.split(",")]


def parts_of(text: str) -> Iterator[str]:
    """The words of a text in lower case, and the words inside snake_case and CamelCase names."""
    for name in re.findall(r"[A-Za-z]+", text):
        yield from (part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name))


def searched() -> list[Path]:
    """Every source, page and manifest except SKIPPED and the two files that list the words."""
    return [
        path
        for path in sources()
        if path not in SELF and not str(path.relative_to(PROJECT)).startswith(SKIPPED)
    ]


@pytest.mark.slow
def test_no_file_uses_a_word_that_the_glossary_replaces() -> None:
    words = set(unwanted_words())
    found = {
        (word, str(path.relative_to(PROJECT)))
        for path in searched()
        for word in words & set(parts_of(path.read_text()))
    }
    assert len(searched()) > 500
    assert found - ALLOWED == set()


@pytest.mark.parametrize("text", ["the bells", "class BellTower", "def ring_bell()", "LAST_BELL"])
def test_words_are_found_in_prose_and_in_names(text: str) -> None:
    assert {"bell", "bells"} & set(parts_of(text)) & set(unwanted_words())
