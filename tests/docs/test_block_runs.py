"""The code blocks of README and docs run as they stand, in the order of their page.

With every change those that need nothing; at night whole pages on a stack of their own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import page_session
from tests.support.texts.blocks import Block, all_blocks, blocks

BLOCKS = all_blocks()
ON_A_STACK = sorted({block.page for block in BLOCKS if block.where == "stack"})
WITHOUT = sorted({block.page for block in BLOCKS if block.where == "here"})
SECONDS_HERE, SECONDS_ON_A_STACK = 110.0, 1500.0


def of(page: str, *places: str) -> list[Block]:
    """The blocks of a page that run at these places, and the files that its reader saves."""
    return [
        block for block in BLOCKS if block.page == page and (block.where in places or block.file)
    ]


def look_as_shown(page: list[Block], printed: dict[str, str]) -> None:
    shown = [
        block for block in page if block.language == "console" and page_session.expected(block)
    ]
    missing = {
        block.name: line
        for block in shown
        if (line := page_session.differs(block, printed[block.name]))
    }
    assert missing == {}, {name: printed[name] for name in missing}


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    """A folder like a clone; whatever stack a page leaves in it is stopped."""
    yield page_session.checkout(tmp_path)
    if (tmp_path / ".dovetail").exists():
        command = [str(Path(sys.executable).with_name("dovetail")), "down"]
        subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)


@pytest.mark.nightly
@pytest.mark.parametrize("page", WITHOUT)
def test_the_blocks_that_need_nothing_run(page: str, clone: Path) -> None:
    parts = of(page, "here")
    look_as_shown(parts, page_session.run(clone, parts, SECONDS_HERE))


@pytest.mark.nightly
@pytest.mark.parametrize("page", ON_A_STACK)
def test_the_blocks_of_a_page_run_on_a_stack(page: str, clone: Path) -> None:
    """A page that does not start a stack finds one running, as its reader does."""
    parts = of(page, "here", "stack")
    if not any(" up --detach" in block.text or "make up" in block.text for block in parts):
        start = "dovetail up --detach\nsource .dovetail/env\n"
        parts = [Block(page, 0, "sh", start, "stack", ""), *parts]
    look_as_shown(parts, page_session.run(clone, parts, SECONDS_ON_A_STACK))


def test_a_block_that_fails_is_named(clone: Path) -> None:
    page = list(blocks("page.md", "```sh\nx=1\n```\n\n```sh\necho $x\nfalse\necho never\n```\n"))
    with pytest.raises(page_session.BlockFailed, match=r"page\.md:5 ended with 1:\n1\n$"):
        page_session.run(clone, page, 30)


def test_a_picture_that_is_not_printed_is_found(clone: Path) -> None:
    page = list(
        blocks(
            "page.md",
            "```console\n$ echo a  b c; false\na b ...\n```\n\n```console\n$ echo d\ne\n```\n",
        )
    )
    printed = page_session.run(clone, page, 30)
    assert [page_session.differs(block, printed[block.name]) for block in page] == ["", "e"]


def test_a_reader_saves_the_files_of_a_page(clone: Path) -> None:
    page = list(
        blocks(
            "page.md", "<!-- file: a/b.yaml -->\n```yaml\nx: $y\n```\n```sh\ncat a/b.yaml\n```\n"
        )
    )
    assert page_session.run(clone, page, 30) == {"page.md:5": "x: $y\n"}
