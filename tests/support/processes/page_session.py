"""Runs the code blocks of a page as its reader would: one shell, in a folder that looks like a clone of the project.

The folder has copies of the project's files and a folder `.dovetail` of its own, so that a page's stack, and what the
page changes, are the page's. Only `.venv` is a link.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.texts.blocks import Block
from tests.support.texts.citations import PROJECT

OWN = {".dovetail", ".git", ".sphinx", "dist", ".pytest_cache", ".mypy_cache", ".hypothesis"}
VENV = ".venv"
NOT_COPIED = shutil.ignore_patterns("__pycache__", "node_modules")
_BEGIN = "::block "


class BlockFailed(AssertionError):
    """A block ended with an exit code, or printed something else than the page shows."""


def checkout(folder: Path) -> Path:
    """``folder`` as the top of a clone: what a page changes there leaves this one as it is."""
    for entry in PROJECT.iterdir():
        copy = folder / entry.name
        if entry.name == VENV:
            copy.symlink_to(entry)
        elif entry.is_dir() and entry.name not in OWN:
            shutil.copytree(entry, copy, symlinks=True, ignore=NOT_COPIED)
        elif entry.is_file():
            shutil.copy2(entry, copy)
    return folder


def installed() -> None:
    """What `make` installs is there before a page runs `make`, which would install the page's folder into this venv."""
    if (PROJECT / ".venv").resolve() == Path(sys.prefix).resolve():
        make = shutil.which("make")
        assert make is not None
        words = [make, "--silent", ".venv/.runtime-installed"]
        subprocess.run(words, cwd=PROJECT, check=True, timeout=600)


def clone(folder: Path) -> Path:
    """A real clone of the last commit in ``folder``: an image is built from files, not from links."""
    git = shutil.which("git")
    assert git is not None
    words = [git, "clone", "--quiet", "--depth", "1", f"file://{PROJECT}", str(folder)]
    subprocess.run(words, check=True, timeout=120)
    return folder


def run(
    folder: Path,
    page: Sequence[Block],
    patience: float,
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What each block printed, by its name, stderr included. Raises BlockFailed at the first that fails.

    A block of a console's pictures may end with any exit code: its output counts. ``patience`` is in seconds, for
    the whole page. ``environment``: what the reader's shell has besides PATH and a home.
    """
    shell = shutil.which("bash")
    assert shell is not None
    script = "".join(_part(block, folder) for block in page)
    # A program of the page that outlives it keeps the pipe open: what is printed goes to a file.
    log = folder / "printed.log"
    with log.open("w") as out:
        running = subprocess.Popen(
            [shell, "-eu", "-o", "pipefail", "-c", script],
            cwd=folder,
            env={**_environment(), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            code = running.wait(patience)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            code = -1
    printed = dict(_printed(log.read_text(errors="replace")))
    if code != 0:
        last = list(printed)[-1] if printed else "nothing"
        why = "did not end in time" if code < 0 else f"ended with {code}"
        raise BlockFailed(f"{last} {why}:\n{printed.get(last, '')[-4000:]}")
    return printed


def _environment() -> dict[str, str]:
    """PATH with the commands of this venv, as after `source .venv/bin/activate`, and a home; nothing of a stack's."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    here = str(Path(sys.executable).parent)
    return kept | {"PATH": f"{here}:{os.environ['PATH']}", "COLUMNS": "120"}


def _part(block: Block, folder: Path) -> str:
    if block.file:
        name = folder / block.file
        return f"mkdir -p '{name.parent}'\ncat >'{name}' <<'__END__'\n{block.text}__END__\n"
    if not block.is_shell:
        return ""
    begin = f"echo '{_BEGIN}{block.name}'\n{block.first}"
    if block.where.startswith("no: "):
        return begin
    if block.language == "console":
        return begin + "".join(f"{line} || true\n" for line in block.commands.splitlines())
    return begin + block.commands


def _printed(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(_BEGIN)[1:]:
        name, _, rest = part.partition("\n")
        yield name, rest


def expected(block: Block) -> list[str]:
    """The lines that a console's picture shows below its prompts."""
    return [line for line in block.text.splitlines() if not line.startswith("$ ")]


def differs(block: Block, printed: str) -> str:
    """The first line of a picture that was not printed; `...` stands for any text, and the width of columns is free."""
    lines = iter([_plain(line) for line in printed.splitlines()])
    for wanted in map(_plain, expected(block)):
        pattern = re.sub(r"\[", "[[]", wanted).replace("...", "*")
        if not any(fnmatch.fnmatchcase(line, pattern) for line in lines):
            return wanted
    return ""


def _plain(line: str) -> str:
    return " ".join(line.split())
