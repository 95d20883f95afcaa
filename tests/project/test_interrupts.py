"""Ctrl-C ends every program of the project with one line and status 130, whatever it does at that moment.

The programs are all modules with a ``__main__`` guard. A ``sitecustomize`` of the child presses Ctrl-C at a moment that
does not depend on the machine's speed: at the first import of the program's own module, or at the call of its ``main``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from local.stack_plan import PROJECT
from shared.runtime.ending import INTERRUPTED, LINE

PARTS = ("bench", "cli", "deploy", "local", "release", "services", "shared", "simulation")
BUILD_STEPS = ("release.image.",)
"""Run by the build of the image, from a folder that has none of the other parts."""
DURING_IMPORTS = """
import os, signal, sys

def hook(event, _arguments):
    if event == "import" and sys.argv[0] != "-m" and not done:
        done.append(event)
        os.kill(os.getpid(), signal.SIGINT)

done = []
sys.addaudithook(hook)
"""
AT_A_CALL = """
import os, signal, sys

def profile(frame, event, _argument):
    if event == "call" and (frame.f_globals.get("__name__"), frame.f_code.co_name) == WHERE:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(profile)
"""


def programs() -> list[str]:
    """Names of modules for ``python -m``."""
    found = []
    for part in PARTS:
        for path in sorted((PROJECT / part).rglob("*.py")):
            if '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
                found.append(".".join(path.relative_to(PROJECT).with_suffix("").parts))
    names = [name.removesuffix(".__main__") for name in found]
    return [name for name in names if not name.startswith(BUILD_STEPS)]


PROGRAMS = programs()
CALLS = [
    (("bench.cost",), "__main__", "main"),
    (("release.locks",), "__main__", "main"),
    (("simulation.chaos",), "__main__", "main"),
    (("simulation.mutants",), "__main__", "main"),
    (("simulation",), "simulation.runner.main", "run"),
    (("cli.main", "validate", "-f", "-"), "cli.manifests.validate", "validate"),
    (("cli.main", "status"), "cli.stack.status", "status"),
]
"""Words of a command line, and the function at whose call Ctrl-C is pressed: module and name."""


def interrupted(
    words: Sequence[str], script: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """The program's end; ``script`` runs in it before anything else."""
    (folder / "sitecustomize.py").write_text(script)
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(folder)},
        # A shell that starts this test in the background ignores SIGINT for all that it starts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_list_has_the_programs_that_the_documents_name() -> None:
    named = {"bench.scheduling", "cli.main", "services.launcher", "simulation", "simulation.chaos"}
    assert named <= {*PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_interrupt_during_imports_is_one_line(name: str, tmp_path: Path) -> None:
    done = interrupted([name], DURING_IMPORTS, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", f"{LINE}\n")


@pytest.mark.parametrize(("words", "module", "function"), CALLS)
def test_an_interrupt_of_the_program_itself_is_one_line(
    words: tuple[str, ...], module: str, function: str, tmp_path: Path
) -> None:
    done = interrupted(words, f"WHERE = {(module, function)}\n{AT_A_CALL}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", f"{LINE}\n")
