"""Bytecode for an image, which is read-only and has no cache of its own.

Bytecode beside its source is as large as the source, so packages of others have no sources in an image: their lines are
numbered in a stack trace, and not shown. What may go wrong: a package reads its own source when it runs. Then it
belongs to those that are left alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path


def compiled(folder: Path, *, shown_as: Path) -> None:
    """Bytecode of all modules that depends on no time stamp. ``shown_as``: the folder's path in stack traces.

    Raises CalledProcessError.
    """
    mode = ("--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", str(shown_as))
    command = [sys.executable, "-m", "compileall", "-q", *mode, str(folder)]
    subprocess.run(command, check=True, timeout=600)


def without_sources(folder: Path, keep: Collection[str] = ()) -> None:
    """Put the bytecode of each module in the place of its source. ``keep``: top folders that are left alone."""
    for cache in list(folder.rglob("__pycache__")):
        if cache.relative_to(folder).parts[0] in keep:
            continue
        for code in cache.iterdir():
            source = cache.with_name(code.name.partition(".")[0]).with_suffix(".py")
            if source.is_file():
                code.rename(source.with_suffix(".pyc"))
                source.unlink()
            else:
                code.unlink()
        cache.rmdir()
