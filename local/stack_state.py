"""State files of a running local stack: ``state.json`` for ``dovetail``, ``env`` for shells.

Files are replaced atomically, so a reader never sees a partly written file. A read-only or full directory raises
OSError, which names the file.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from local.process import ProcessIdentity
from shared.errors import ConfigurationError

STARTING, READY, FAILED, STOPPED = "starting", "ready", "failed", "stopped"


@dataclass
class PartState:
    """One process as the supervisor last saw it. ``restarts`` counts its restarts after unexpected exits."""

    name: str
    process: ProcessIdentity
    restarts: int = 0


@dataclass
class StackState:
    """The whole stack as the supervisor last saw it. ``message`` describes the current step or the failure."""

    supervisor: ProcessIdentity
    phase: str = STARTING
    message: str = ""
    parts: list[PartState] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def identities(self) -> list[ProcessIdentity]:
        """All processes, the supervisor first: while it runs, it restarts parts that exit."""
        return [self.supervisor, *(part.process for part in self.parts)]

    def part(self, name: str) -> PartState:
        """The part with this name. Raises KeyError when it is not running."""
        return {part.name: part for part in self.parts}[name]


_STATE = TypeAdapter(StackState)


def write_state(path: Path, state: StackState) -> None:
    """Replace the state file."""
    _replace(path, _STATE.dump_json(state, indent=1).decode() + "\n")


def read_state(path: Path) -> StackState | None:
    """The state; None when no stack was started here. Raises ConfigurationError for an unusable file."""
    try:
        return _STATE.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror}; pass the directory of your own stack"
        ) from error
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise ConfigurationError(
            f"{path} is damaged ({problem}); stop the stack's processes manually and delete the file"
        ) from error


def write_environment(path: Path, environment: Mapping[str, str]) -> None:
    """Write lines that a shell can source: ``export NAME=value``."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    _replace(path, "\n".join(lines) + "\n")


def read_environment(path: Path) -> dict[str, str]:
    """The inverse of ``write_environment``. Raises ConfigurationError when the file does not exist."""
    try:
        words = shlex.split(path.read_text(), comments=True)
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{path} does not exist; start a stack with `dovetail up --detach`"
        ) from error
    pairs = (word.partition("=") for word in words)
    return {name: value for name, equals, value in pairs if equals}


def _replace(path: Path, text: str) -> None:
    draft = path.with_suffix(path.suffix + ".new")
    draft.write_text(text)
    os.replace(draft, path)
