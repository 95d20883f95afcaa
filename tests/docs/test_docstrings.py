"""A docstring says something: an ID alone sends its reader elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.texts.citations import CITATION, PROJECT, sources

FOLDERS = ("services", "shared", "local", "cli", "bench", "deploy", "tests")
WORD = re.compile(r"[A-Za-z]{2}")


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text()
    if not CITATION.search(text):  # parsing takes longer
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            value = node.value.value
            if isinstance(value, str):
                yield node.lineno, value


@pytest.mark.slow
def test_no_docstring_is_only_an_id() -> None:
    bare = [
        f"{path.relative_to(PROJECT)}:{line}: {text}"
        for path in sources(*FOLDERS)
        if path.suffix == ".py"
        for line, text in docstrings(path)
        if CITATION.search(text)
        and not WORD.search(re.sub(r"\b(?:and|to)\b", "", CITATION.sub("", text)))
    ]
    assert bare == []
