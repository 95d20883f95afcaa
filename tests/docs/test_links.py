"""Links between the documents lead somewhere, down to the heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.texts.citations import PROJECT, sources
from tests.support.texts.documents import user_pages

DOCUMENTS = [path for path in sources() if path.suffix == ".md"]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
NAMED = re.compile(r"`(?P<name>(?:bench|cli|deploy|docs|local|services|shared|tests)/[\w./-]+)`")
DOCS = PROJECT / "docs"


def anchors(path: Path) -> set[str]:
    """As GitHub makes them of headings."""
    titles = (found["title"] for found in HEADING.finditer(FENCE.sub("", path.read_text())))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(path: Path) -> list[str]:
    broken = []
    for found in LINK.finditer(FENCE.sub("", path.read_text())):
        target, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (path.parent / target) if target else path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(found["target"])
    return broken


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_relative_link_resolves(path: Path) -> None:
    assert broken_links(path) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[1](#a-b-c) [2](#d) [3](other.md) [4](https://example.com/x)\n")
    assert broken_links(page) == ["#d", "other.md"]


def test_the_index_of_docs_names_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    pages = [str(path.relative_to(DOCS)) for path in user_pages()]
    assert len(pages) > 15
    assert [page for page in pages if f"({page})" not in index] == ["README.md"]


def test_the_index_of_docs_names_each_page_and_each_heading_once() -> None:
    index = (DOCS / "README.md").read_text()
    named = [found["target"] for found in LINK.finditer(index)]
    assert {target for target in named if named.count(target) > 1} == set()
    assert re.findall(r"^## .*\n## .*", index, re.MULTILINE) == []


def test_the_index_of_decisions_names_every_decision() -> None:
    folder = DOCS / "decisions"
    index = (folder / "README.md").read_text()
    assert [path.name for path in folder.glob("*.md") if f"({path.name})" not in index] == [
        "README.md"
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_file_that_is_named_exists(path: Path) -> None:
    """From the top of the repository, in backticks; the changelog tells of what was, too."""
    named = {found["name"] for found in NAMED.finditer(path.read_text())}
    gone = {name for name in named if not (PROJECT / name).exists()}
    assert gone == set() or path.name == "CHANGELOG.md"
