"""Counts how often the code that mutants change runs: a mutant that is never reached needs a fault or an action of
users, one that is reached and not found needs an invariant.

The sound code is run, with a call that counts before each statement that a mutant changes and at the beginning of its
body.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from simulation.mutants.loaded_code import PROJECT, LoadedCode
from simulation.mutants.mutant import Mutant

COUNT = "_count_reached"
Place = tuple[list[ast.stmt], ast.stmt]
"""A statement, and the block that it stands in."""
BODY = " body"
"""Ends the key of the body of a statement: a condition that is never true has a body that never runs."""


@dataclass(slots=True)
class Reach:
    """What ran in this process since ``watch``."""

    counts: Counter[str] = field(default_factory=Counter)
    """Name of the mutant, or that and ``BODY`` -> how often its code ran."""

    def watch(self, code: LoadedCode, mutants: Iterable[Mutant]) -> None:
        """Count in this process from now on. Code outside functions, such as a script for Redis, is not counted."""
        by_file: dict[str, list[Mutant]] = {}
        for mutant in mutants:
            by_file.setdefault(mutant.file, []).append(mutant)
        for file, those in by_file.items():
            tree = ast.parse((PROJECT / file).read_text())
            places = {one.name: place for one in those if (place := _place(tree, one))}
            for name, (block, statement) in places.items():
                _add_counters(name, block, statement)
            if places:
                code.replace(file, ast.fix_missing_locations(tree), {COUNT: self._count})

    def _count(self, key: str) -> None:
        self.counts[key] += 1


def table(mutants: Iterable[Mutant], by_scenario: Mapping[str, Counter[str]]) -> Iterator[str]:
    """A line for each mutant: in each scenario how often its code ran, and the body of its statement if it has one."""
    for mutant in mutants:
        parts = []
        for scenario, counts in by_scenario.items():
            body = f", body {counts[mutant.name + BODY]}" if mutant.name + BODY in counts else ""
            parts.append(f"{scenario} {counts[mutant.name]}{body}")
        yield f"{mutant.name}: {'; '.join(parts)}"


def _place(tree: ast.Module, mutant: Mutant) -> Place | None:
    """None when no statement of a function has the changed line."""
    line = _first_changed_line(mutant)
    found: Place | None = None
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            found = _innermost(function.body, line) or found
    return found


def _add_counters(name: str, block: list[ast.stmt], statement: ast.stmt) -> None:
    if isinstance(statement, ast.If | ast.For | ast.AsyncFor | ast.While):
        statement.body.insert(0, _counter(name + BODY))
    block.insert(block.index(statement), _counter(name))


def _first_changed_line(mutant: Mutant) -> int:
    text = (PROJECT / mutant.file).read_text()
    same = 0
    for old, new in zip(mutant.old.splitlines(), mutant.new.splitlines(), strict=False):
        if old != new:
            break
        same += 1
    return text[: text.index(mutant.old)].count("\n") + 1 + same


def _innermost(block: list[ast.stmt], line: int) -> Place | None:
    """The statement that covers the line and has no statement inside that does, with the list that it stands in."""
    for statement in block:
        if statement.lineno <= line <= (statement.end_lineno or 0):
            for inner in _blocks(statement):
                if found := _innermost(inner, line):
                    return found
            return block, statement
    return None


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    if isinstance(statement, ast.Try):
        yield from (handler.body for handler in statement.handlers)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block


def _counter(key: str) -> ast.stmt:
    call = ast.Call(ast.Name(COUNT, ast.Load()), [ast.Constant(key)], [])
    return ast.Expr(call)
