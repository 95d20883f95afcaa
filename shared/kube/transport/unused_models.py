"""Imports kubernetes_asyncio without its 800 typed models and its API classes.

The package imports all of them (32 MB, half a second of CPU at every start), although Dovetail uses only its
configuration loaders and its transport, and decodes raw answers itself. There is no lighter import, so empty modules
replace them while the package is imported, and are removed afterwards.

What may go wrong: code that uses a typed model gets an AttributeError. Only ``shared.kube`` may import the package
(import-linter), and it uses no typed model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

_PACKAGE = "kubernetes_asyncio.client"
_UNUSED = (f"{_PACKAGE}.models.", f"{_PACKAGE}.api.")


@contextmanager
def without_typed_models() -> Iterator[None]:
    """Import the package inside this block. Does nothing when it is imported already."""
    if _PACKAGE in sys.modules:
        yield
        return
    finder = _EmptyModules()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _remove_empty_modules()


class _EmptyModules(MetaPathFinder, Loader):
    """Finds modules without code; every attribute of such a module is the module itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for an unused module, None for all others."""
        return spec_from_loader(name, self) if name.startswith(_UNUSED) else None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its attributes; there is no code to execute."""
        vars(module)["__getattr__"] = lambda _name: module


def _remove_empty_modules() -> None:
    """Remove the empty modules and every name that refers to them."""
    for name in sys.modules.copy():  # other threads import meanwhile
        if name.startswith(_UNUSED):
            del sys.modules[name]
    for package in (_PACKAGE, f"{_PACKAGE}.models", f"{_PACKAGE}.api"):
        namespace = vars(sys.modules.get(package, ModuleType(package)))
        for name, value in list(namespace.items()):
            if isinstance(value, ModuleType) and value.__name__.startswith(_UNUSED):
                del namespace[name]
