"""Puts a mutant into code that is imported already, so that its runs are forked from one prepared process.

The mutated source is compiled, and every function of the module gets the code object that stands at the same place in
it. A function that others imported is changed for them too, because the function itself stays.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

from simulation.mutants.mutant import Mutant

PROJECT = Path(__file__).resolve().parents[2]
CONSTANTS = (str, int, float, bool)
EMPTY: Mapping[str, object] = MappingProxyType({})


class LoadedCode:
    """The functions of all imported modules. To be made before anything is forked."""

    def __init__(self) -> None:
        self._functions: dict[str, list[FunctionType]] = {}
        """File -> its functions."""
        gc.unfreeze()  # The collector does not list what is frozen.
        for one in gc.get_objects():
            # Not isinstance: it asks a weak proxy for the class of its object, which may be gone.
            if type(one) is FunctionType:
                self._functions.setdefault(one.__code__.co_filename, []).append(one)

    def require(self, mutant: Mutant) -> None:
        """Raises ValueError when ``apply`` would: a run that ends by that has not found the mutant."""
        path = PROJECT / mutant.file
        text = path.read_text()
        old, new = _compiled(path, text), _compiled(path, mutant.change(text))
        changed = _swaps(old, new)
        functions = self._functions.get(str(path), ())
        if not (
            any(one.__code__ in changed for one in functions) or _constants(_module_of(path), new)
        ):
            raise ValueError(f"mutant {mutant.name} changes nothing that {mutant.file} has loaded")

    def apply(self, mutant: Mutant) -> None:
        """Change the functions and constants of the mutant's module in this process.

        Raises ValueError when the text does not stand in it once, or when it changes nothing that is loaded.
        """
        source = (PROJECT / mutant.file).read_text()
        if not self.replace(mutant.file, mutant.change(source)):
            raise ValueError(f"mutant {mutant.name} changes nothing that {mutant.file} has loaded")

    def replace(
        self, file: str, changed: str | ast.Module, names: Mapping[str, object] = EMPTY
    ) -> bool:
        """Give the functions of a module what stands in its changed source; whether one differs.

        ``names`` are put into the module, for the changed source to use. Raises ValueError for a module that is not
        imported.
        """
        path = PROJECT / file
        module = _module_of(path)
        module.__dict__.update(names)
        new = _compiled(path, changed)
        swaps = _swaps(_compiled(path, path.read_text()), new)
        done = [self._swap(one, swaps) for one in self._functions.get(str(path), ())]
        return any(done) or _set_constants(module, new)

    def _swap(self, function: FunctionType, changed: dict[CodeType, CodeType]) -> bool:
        code = changed.get(function.__code__)
        if code is not None:
            function.__code__ = code
        return code is not None


def _module_of(path: Path) -> ModuleType:
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(path):
            return module
    raise ValueError(f"{path} is not imported")


def _compiled(path: Path, source: str | ast.Module) -> CodeType:
    # Without the __future__ imports of this file, or no code object would be equal to a loaded one.
    return compile(source, str(path), "exec", dont_inherit=True)


def _swaps(old: CodeType, new: CodeType) -> dict[CodeType, CodeType]:
    return {before: after for before, after in _pairs(old, new) if before != after}


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Code objects at the same place of both, the outermost ones included."""
    yield old, new
    inner = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new))
    for before, after in zip(*inner, strict=False):
        if before.co_name == after.co_name:
            yield from _pairs(before, after)


def _set_constants(module: ModuleType, code: CodeType) -> bool:
    """Give the module the constants that its mutated source has; whether one differs."""
    fresh = _constants(module, code)
    module.__dict__.update(fresh)
    return bool(fresh)


def _constants(module: ModuleType, code: CodeType) -> dict[str, Any]:
    """The constants of this source that the module has with another value."""
    fresh: dict[str, Any] = {"__name__": module.__name__, "__package__": module.__package__}
    exec(code, fresh)  # our own source, one text of it replaced
    return {
        name: value
        for name, value in fresh.items()
        if isinstance(value, CONSTANTS) and getattr(module, name, value) != value
    }
