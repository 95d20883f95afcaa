"""Modules of the services keep no state but by ``kept``, which can forget all of it: a run never depends on what the
process did before."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from release.locks import PROJECT

WRITES = {
    "add",
    "append",
    "appendleft",
    "clear",
    "extend",
    "pop",
    "popitem",
    "setdefault",
    "update",
}


def modules() -> Iterator[Path]:
    for folder in ("shared", "services"):
        yield from sorted((PROJECT / folder).rglob("*.py"))


def containers(tree: ast.Module) -> set[str]:
    """Names that the module gives a container which can be changed."""
    found = set[str]()
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if _is_container(value):
            found |= {one.id for one in targets if isinstance(one, ast.Name)}
    return found


def _is_container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        made = value.func.value if isinstance(value.func, ast.Subscript) else value.func
        names = {"dict", "list", "set", "deque", "defaultdict", "OrderedDict", "Counter"}
        return isinstance(made, ast.Name) and made.id in names
    return isinstance(
        value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
    )


def written(tree: ast.Module) -> Iterator[str]:
    """Names whose container is changed inside a function."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            own = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
            own |= {
                n.id
                for n in ast.walk(function)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            yield from (name for node in ast.walk(function) if (name := _changes(node)) not in own)


def _changes(node: ast.AST) -> str:
    changed: ast.expr | None = None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in WRITES
    ):
        changed = node.func.value
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        changed = node.value
    return changed.id if isinstance(changed, ast.Name) else ""


def kept_outside(source: str) -> set[str]:
    tree = ast.parse(source)
    return containers(tree) & {*written(tree)}


@pytest.mark.slow
def test_no_module_keeps_state_of_its_own() -> None:
    found = {str(path.relative_to(PROJECT)): kept_outside(path.read_text()) for path in modules()}
    assert {path: names for path, names in found.items() if names} == {
        "shared/domain/workloads/kept.py": {"_EVERYTHING"}
    }


def test_a_module_that_does_is_found() -> None:
    assert kept_outside("_a: dict[str, int] = {}\ndef f(x):\n    _a[x] = 1\n") == {"_a"}
    assert kept_outside("_a = deque(maxlen=1)\ndef f(x):\n    _a.append(x)\n") == {"_a"}
    assert kept_outside("_a = {}\ndef f(x):\n    return _a[x]\n") == set()
    assert kept_outside("_a = {}\ndef f(_a):\n    _a[1] = 2\n") == set()
