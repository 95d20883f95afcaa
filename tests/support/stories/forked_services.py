"""Services that are started to fail: each a process of its own, forked from one that has their modules in memory.

What a start costs is nearly all imports; a fork shares them. The body is that of ``python -m services.<name>``. Where
``multiprocessing`` has no fork server (Windows) nothing here works.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from shared.runtime.environment import main


def complaints(
    variables: Mapping[str, str], services: tuple[str, ...], directory: Path, seconds: float
) -> dict[str, str]:
    """Start the services in parallel. Returns the only stderr line of each. All must exit with code 1 in time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"services.{name}.service" for name in services])
    running = {
        name: context.Process(target=_serve, args=(name, dict(variables), directory / name))
        for name in services
    }
    for process in running.values():
        process.start()
    said = {}
    try:
        for name, process in running.items():
            process.join(seconds)
            told = (directory / name).read_text()
            assert process.exitcode == 1, (name, process.exitcode, told)
            (said[name],) = told.splitlines()
    finally:
        for process in running.values():
            process.kill()
            process.join()
    return said


def _serve(name: str, variables: dict[str, str], stderr: Path) -> None:
    """The child process, without the environment of the test."""
    os.environ.clear()
    os.environ.update(variables)
    with stderr.open("wb") as errors, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    sys.argv = [f"services.{name}"]
    main(import_module(f"services.{name}.service").ENTRY)
