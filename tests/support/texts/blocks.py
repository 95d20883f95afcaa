"""The code blocks of README and docs, with what their HTML comments say about running them.

``<!-- run: here -->`` above a block of shell lines: it runs in a copy of the project, and needs nothing else.
``<!-- run: stack -->``: it runs on a local stack, which the page's blocks share, in their order.
``<!-- run: account -->``: it runs on an AWS account with a cluster, where nothing is installed before the page begins.
``<!-- run: engine -->``: it runs in a clone of the project, with a Docker engine.
``<!-- run: no: REASON -->``: it is only checked, because it needs REASON, which is one of ``NEEDS``.
``<!-- first: COMMAND -->`` above a block: a line that a test types before it, or in its place where it does not run.
``<!-- blocks: WHERE -->`` near the top of a page: the same for all of its blocks that have no comment of their own.
``<!-- file: NAME -->`` above a block: the reader saves it as NAME, and later commands of the page find it there.
``<!-- manifest: faulty -->`` above a manifest: it shows faults, and must have some.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.texts.citations import PROJECT
from tests.support.texts.documents import user_pages

SHELLS = {"sh", "bash", "shell", "console"}
NEEDS = {
    "eksctl",
    "a registry of Terraform",
    "a Redis of your own",
    "port-forward",
    "an AWS account",
    "containers",
    "a network",
    "hours",
    "a person",
    "examples of the help texts",
}
"""Why a block cannot run as it stands: nothing else counts as a reason. Of the help texts, test_help_examples.py runs
most examples."""
_MARK = re.compile(r"<!-- (?P<what>run|blocks|file|manifest|first): (?P<value>.+?) -->")
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<language>\w*)[^\n]*$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    """Of its first fence, from 1."""
    language: str
    text: str
    where: str
    """here, stack, account, engine, "no: REASON", or nothing if no comment says."""
    file: str
    faulty: bool = False
    first: str = ""
    """What a test types before it, or in its place where it does not run: lines."""

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_shell(self) -> bool:
        return self.language in SHELLS

    @property
    def commands(self) -> str:
        """What a reader types: of a console's picture only the lines after a prompt."""
        if self.language != "console":
            return self.text
        return "".join(f"{line[2:]}\n" for line in self.text.splitlines() if line[:2] == "$ ")


def pages() -> list[Path]:
    """README and every page of docs that users read."""
    return [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *user_pages()]


def blocks(name: str, text: str) -> Iterator[Block]:
    """The fenced blocks of one page, in order."""
    lines = text.splitlines()
    general, marks, start = "", dict[str, str](), -1
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if start < 0 and (mark := _MARK.fullmatch(line.strip())):
            if mark["what"] == "blocks":
                general = mark["value"]
            elif mark["what"] == "first":
                marks["first"] = f"{marks.get('first', '')}{mark['value']}\n"
            else:
                marks[mark["what"]] = mark["value"]
        elif start < 0 and fence:
            start = number
        elif start >= 0 and line.strip() == "```":
            language = lines[start].strip().lstrip("`")
            body = "".join(f"{one}\n" for one in lines[start + 1 : number])
            where = marks.get("run", general)
            file, first = marks.get("file", ""), marks.get("first", "")
            yield Block(name, start + 1, language, body, where, file, "manifest" in marks, first)
            marks, start = {}, -1
        elif start < 0 and line.strip():
            marks = {}


def all_blocks() -> list[Block]:
    """Those of all pages."""
    return [
        block
        for path in pages()
        for block in blocks(str(path.relative_to(PROJECT)), path.read_text())
    ]
