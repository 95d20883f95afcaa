"""Child processes that never outlive their purpose.

A pid alone names nobody: the system reuses it. A process is therefore remembered as pid *and*
start time, and a signal is sent only when both still match. On Linux a child asks the kernel to
be killed with its parent (``PR_SET_PDEATHSIG``), so that ``kill -9`` of a parent leaves nothing
behind. Elsewhere ``dovetail down`` finds the children in the state file.

What may go wrong: without ``/proc`` and without ``ps`` start times are unknown; such a process
counts as gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.errors import ConfigurationError

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class ProcessIdentity:
    """One process, told apart from later ones with its pid. ``started`` is an opaque stamp."""

    pid: int
    started: str

    def alive(self) -> bool:
        """Whether this very process runs (a zombie does not)."""
        return start_stamp(self.pid) == self.started

    def send(self, signal_number: int) -> None:
        """Signal the process and its group; nothing happens when it is gone. Raises ConfigurationError for a process
        of somebody else.
        """
        if not self.alive():
            return
        try:
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal_number)
            else:
                os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise ConfigurationError(
                f"process {self.pid} is another user's; stop its stack as that user"
            ) from error


def start_stamp(pid: int) -> str | None:
    """When ``pid`` started, as an opaque text; None when no such process runs."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return _start_stamp_by_ps(pid) if not Path("/proc/self/stat").exists() else None
    # proc(5): the name in parentheses may hold spaces; state is field 3, start time field 22.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def _start_stamp_by_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "lstart=,stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return None if not answer or answer.split()[-1].startswith("Z") else answer.rpartition(" ")[0]


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has ``pid`` now; None when there is none."""
    stamp = start_stamp(pid)
    return None if stamp is None else ProcessIdentity(pid, stamp)


def spawn(
    command: list[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    directory: Path,
    die_with_parent: bool,
) -> subprocess.Popen[bytes]:
    """Start ``command`` in a session of its own, with output appended to ``log``.

    Raises FileNotFoundError when the program does not exist.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_death_wish() if die_with_parent else None,
        )


def _death_wish() -> Callable[[], None] | None:
    """What a child runs before its program: be killed when the parent dies. None off Linux."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def before_program() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the wish was made
            os._exit(1)

    return before_program


def terminate(
    processes: Iterable[ProcessIdentity],
    *,
    grace_seconds: float,
    reap: Callable[[], object] = lambda: None,
) -> None:
    """SIGTERM all, wait up to ``grace_seconds`` for all, SIGKILL the rest and wait for them too.

    ``reap`` is called between looks, for a parent that must collect its own children.
    """
    waiting = list(processes)
    for signal_number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 5.0)):
        for process in waiting:
            process.send(signal_number)
        deadline = time.monotonic() + seconds
        while waiting and time.monotonic() < deadline:
            reap()
            waiting = [process for process in waiting if process.alive()]
            if waiting:
                time.sleep(_POLL_SECONDS)


def last_lines(path: Path, count: int) -> list[str]:
    """The last ``count`` lines of a log, at most 16 KiB of it; none when the file is missing."""
    if not path.exists():
        return []
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - 16_384))
        return log.read().decode(errors="replace").splitlines()[-count:]
