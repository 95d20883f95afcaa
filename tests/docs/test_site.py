"""The site of the documents: its navigation from the indexes, its pictures, and the check of the built pages."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from release.commands_page import PAGE, page
from release.site import check, navigation
from release.site.pictures.__main__ import FOLDER
from release.site.pictures.concepts import PICTURES
from tests.support.texts.citations import PROJECT
from tests.support.texts.documents import user_pages

INDEX = (PROJECT / "docs" / "README.md").read_text()
HAS_SPHINX = importlib.util.find_spec("sphinx") is not None


def test_every_page_has_one_place_in_the_navigation() -> None:
    listed = [one.name for part in navigation.sections(INDEX, "docs") for one in part.pages]
    pages = {str(path.relative_to(PROJECT)).removesuffix(".md") for path in user_pages()}
    assert sorted(listed) == sorted(set(listed))
    assert pages - set(listed) == {"docs/README"}


def test_sections_have_the_pages_of_their_tables_in_order() -> None:
    index = (
        "# Index\n| [A](a.md) | see [B](b/c.md#d), [A](a.md) |\n\ntext [no](x.md)\n"
        "## Second\n| [D](../d.md) | [web](https://example.com/e.md) |\n| [A](a.md) | |\n## Third\n"
    )
    found = [
        (part.title, [tuple(one) for one in part.pages])
        for part in navigation.sections(index, "docs")
    ]
    assert found == [
        ("", [("A", "docs/a"), ("B", "docs/b/c")]),
        ("Second", [("D", "d")]),
    ]


def test_what_is_broken_or_elsewhere_is_found_in_built_pages(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><a href="https://example.com">4</a>'
        '<script src="https://cdn.example.com/x.js"></script><img src="data:image/png;base64,">'
    )
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>')
    (tmp_path / "s.css").write_text(
        '@import "//fonts.example.com/f.css"; p { background: url(p.png) }'
    )
    assert sorted(check.faults(tmp_path)) == [
        "a.html: b.html#gone: no such heading",
        "a.html: c.html: no such file",
        "a.html: https://cdn.example.com/x.js: loaded from elsewhere",
        "s.css: //fonts.example.com/f.css: loaded from elsewhere",
    ]
    assert check.main(tmp_path) == 1


def test_a_site_without_pages_is_a_fault(tmp_path: Path) -> None:
    assert check.main(tmp_path) == 1


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_its_program_draws_it(name: str) -> None:
    """Else: python -m release.site.pictures."""
    assert (FOLDER / f"{name}.svg").read_text() == PICTURES[name]().svg()


def test_every_picture_is_shown_with_words_for_those_who_cannot_see_it() -> None:
    text = "".join(path.read_text() for path in user_pages())
    assert {path.stem for path in FOLDER.iterdir()} == PICTURES.keys()
    assert [name for name in PICTURES if f"](pictures/{name}.svg)" not in text] == []
    assert [name for name, draw in PICTURES.items() if len(draw().description) < 40] == []


def test_the_page_of_commands_is_as_the_program_says() -> None:
    """Else: make crds."""
    assert PAGE.read_text() == page()


@pytest.mark.nightly
@pytest.mark.skipif(not HAS_SPHINX, reason="requirements-docs.lock is not installed: make site")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """As `make site` does it, which .ci/run calls with every change."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--conf-dir",
        "release/site",
        "--doctree-dir",
    ]
    done = subprocess.run(
        [*command, str(tmp_path / "trees"), ".", str(tmp_path / "site")],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(check.faults(tmp_path / "site")) == []
    assert (tmp_path / "site" / "searchindex.js").stat().st_size > 100_000
