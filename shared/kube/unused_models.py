"""Lets go of kubernetes_asyncio's 800 typed models and its API classes.

The package imports all of them (32 MB) although Dovetail uses its configuration loaders and its transport only and
decodes raw answers itself. There is no lighter import, so what is never used is dropped afterwards; ``settle`` of
``shared.memory`` then returns the pages.

What may go wrong: code that asks the package for a typed model later gets an AttributeError. Only ``shared.kube`` may
import it (import-linter), and it does not.
"""

from __future__ import annotations

import sys

_PACKAGE = "kubernetes_asyncio.client"
_UNUSED = (f"{_PACKAGE}.models.", f"{_PACKAGE}.api.")


def drop_unused_models() -> None:
    """Forget the modules and every name that points into them. A second call does nothing."""
    for name in [name for name in sys.modules if name.startswith(_UNUSED)]:
        del sys.modules[name]
    for package in (_PACKAGE, f"{_PACKAGE}.models", f"{_PACKAGE}.api"):
        namespace = vars(sys.modules[package])
        for name, value in list(namespace.items()):
            origin = getattr(value, "__module__", None) or getattr(value, "__name__", "")
            if str(origin).startswith(_UNUSED):
                del namespace[name]
