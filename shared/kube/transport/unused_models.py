"""Imports kubernetes_asyncio without its 800 typed models and its API classes.

The package imports all of them (32 MB, half a second of CPU at every start) although Dovetail uses its configuration
loaders and its transport only and decodes raw answers itself. There is no lighter import, so hollow modules stand in
for them while the package is imported, and are forgotten afterwards.

What may go wrong: code that asks the package for a typed model gets an AttributeError. Only ``shared.kube`` may import
it (import-linter), and it does not.
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
    """Import the package inside. Does nothing when somebody has imported it already."""
    if _PACKAGE in sys.modules:
        yield
        return
    hollow = _Hollow()
    sys.meta_path.insert(0, hollow)
    try:
        yield
    finally:
        sys.meta_path.remove(hollow)
        _forget()


class _Hollow(MetaPathFinder, Loader):
    """Modules without code; whatever name is asked of one is the module itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Ours for what is unused, nobody's for the rest."""
        return spec_from_loader(name, self) if name.startswith(_UNUSED) else None

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute."""
        vars(module)["__getattr__"] = lambda _name: module


def _forget() -> None:
    """The modules and every name that points to them."""
    for name in [name for name in sys.modules if name.startswith(_UNUSED)]:
        del sys.modules[name]
    for package in (_PACKAGE, f"{_PACKAGE}.models", f"{_PACKAGE}.api"):
        namespace = vars(sys.modules.get(package, ModuleType(package)))
        for name, value in list(namespace.items()):
            if isinstance(value, ModuleType) and value.__name__.startswith(_UNUSED):
                del namespace[name]
