"""docs/spec: every behaviour that is cited exists there, and what no test cites is listed."""

from __future__ import annotations

import pytest

from tests.support.texts.citations import (
    ELSEWHERE,
    PROJECT,
    SPEC,
    UNCITED,
    cited,
    defined,
    ends,
    sources,
    uncited_page,
)

LONGEST_PAGE = 400


@pytest.mark.slow
def test_every_behaviour_that_is_cited_is_defined() -> None:
    known = defined()
    unknown = {
        f"{path.relative_to(PROJECT)}: {id_}"
        for path in sources()
        for pair in ends(path.read_text())
        for id_ in pair
        if id_ not in known
    }
    assert unknown == set()


@pytest.mark.slow
def test_no_document_is_cited_that_is_not_in_the_repository() -> None:
    foreign = {
        f"{path.relative_to(PROJECT)}: {found[0]}"
        for path in sources()
        if path.name not in {"citations.py", "test_spec.py"}
        for found in ELSEWHERE.finditer(path.read_text())
    }
    assert foreign == set()


def test_the_list_of_what_no_test_cites_is_fresh() -> None:
    """If it is not: ``make spec``."""
    assert UNCITED.read_text() == uncited_page()


def test_every_page_is_in_the_index_and_short() -> None:
    index = (SPEC / "README.md").read_text()
    pages = sorted(SPEC.glob("*.md"))
    assert [page.name for page in pages if f"({page.name})" not in index] == ["README.md"]
    assert {page.name for page in pages if page.read_text().count("\n") > LONGEST_PAGE} == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LCH-20, F1 and m5.large", {"LCH-20", "F1"}),
        ("LCH-20..22, LCH-24", {"LCH-20", "LCH-21", "LCH-22", "LCH-24"}),
        ("LCH-20 to LCH-22", {"LCH-20", "LCH-21", "LCH-22"}),
        ("ip-10-0-0-1, UTF-8, r5.large, R500, F1x", set()),
    ],
)
def test_citations_are_found_alone_and_in_ranges(text: str, expected: set[str]) -> None:
    known = {"F1", *(f"LCH-{number}" for number in range(20, 26))}
    assert cited(text, known) == expected
