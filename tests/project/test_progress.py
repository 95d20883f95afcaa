"""No loop takes the time of now for its progress: it would be ready for ever, also when it hangs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from release.locks import PROJECT


def progress(source: str) -> Iterator[str]:
    """What each ``Loop`` of a module takes for its progress."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Loop":
            yield from (ast.unparse(one.value) for one in node.keywords if one.arg == "progress")


def believes_a_clock(source: str) -> list[str]:
    return [text for text in progress(source) if "monotonic" in text]


@pytest.mark.parametrize("taken", ["clock.monotonic", "lambda: own.last or clock.monotonic()"])
def test_a_clock_in_the_place_of_progress_is_found(taken: str) -> None:
    assert believes_a_clock(f"Loop('x', run, progress={taken})")


def test_no_loop_believes_a_clock() -> None:
    modules = [*(PROJECT / "shared").rglob("*.py"), *(PROJECT / "services").rglob("*.py")]
    sources = [module.read_text() for module in modules]
    assert sum(len([*progress(source)]) for source in sources) > 15
    assert [text for source in sources for text in believes_a_clock(source)] == []
