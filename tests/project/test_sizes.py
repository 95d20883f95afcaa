"""Sizes that a reader can hold: lines of a file, lines of a function, names in a folder."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
LIMITS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["sizes"]
TOPS = ("services", "shared", "local", "cli", "deploy", "bench", "release", "tests")


def sources() -> Iterator[tuple[str, str]]:
    """(path below the project, text) of every module."""
    for top in TOPS:
        for path in sorted((PROJECT / top).rglob("*.py")):
            yield str(path.relative_to(PROJECT)), path.read_text()


def lengths(text: str) -> Iterator[tuple[str, int]]:
    """(name, lines) of every function, from its `def` to its last line."""
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):  # not expressions
            below = getattr(node, block, [])
            waiting += below if isinstance(below, list) else []


def is_ours(folder: Path) -> bool:
    """Neither a cache nor what npm installed for the checks of the console's page."""
    return folder.name[0] not in "_." and "node_modules" not in folder.parts


def crowds() -> Iterator[tuple[str, int]]:
    """(folder, names in it) of every folder; `__init__.py` and `__main__.py` say nothing of their own."""
    for top in TOPS:
        root = PROJECT / top
        folders = (path for path in root.rglob("*") if path.is_dir() and is_ours(path))
        for folder in (root, *folders):
            found = [one.name for one in folder.iterdir() if not one.name.startswith(("__", "."))]
            if found:
                yield str(folder.relative_to(PROJECT)), len(found)


def check(found: Iterable[tuple[str, int]], limit: str) -> None:
    """Nothing exceeds its limit but the known exceptions, and each of these still does: a list that only shrinks."""
    large = {name: size for name, size in found if size > LIMITS[limit]}
    known = set(LIMITS["exceptions"][limit])
    assert {name: size for name, size in large.items() if name not in known} == {}, "too large"
    assert sorted(known - large.keys()) == [], f"take it out of tool.sizes.exceptions.{limit}"


def test_no_file_is_too_long() -> None:
    check(((name, text.count("\n")) for name, text in sources()), "file-lines")


@pytest.mark.slow
def test_no_function_is_too_long() -> None:
    functions = (
        (f"{path}: {name}", size)
        for path, text in sources()
        if text.count("\n") > LIMITS["function-lines"]
        for name, size in lengths(text)
    )
    check(functions, "function-lines")


def test_no_folder_is_too_crowded() -> None:
    check(crowds(), "folder-names")
