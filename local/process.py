"""Child processes with safe identification and termination.

The system reuses process ids. A process is therefore identified by pid *and* start time, and a signal is sent only when
both still match. On Linux the kernel kills a child when its parent dies (``PR_SET_PDEATHSIG``), so ``kill -9`` of a
parent leaves no children behind. On other systems ``dovetail down`` finds the children in the state file.

Without ``/proc`` and without ``ps`` start times are unknown, and a process counts as ended.
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
    """One process, distinguished from later processes with its pid. ``started`` is an opaque stamp."""

    pid: int
    started: str

    def alive(self) -> bool:
        """Whether this exact process runs (a zombie does not)."""
        return start_stamp(self.pid) == self.started

    def send(self, signal_number: int) -> None:
        """Signal the process and its group. Does nothing when it has ended. Raises ConfigurationError for another
        user's process.
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
    """The start time of ``pid`` as an opaque text; None when no such process runs."""
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
    """Start ``command`` in its own session, with output appended to ``log``.

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
            preexec_fn=_parent_death_signal() if die_with_parent else None,
        )


def _parent_death_signal() -> Callable[[], None] | None:
    """A function for the child to run before its program, which makes the kernel kill it when the parent dies. None on
    other systems than Linux.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def before_program() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl took effect
            os._exit(1)

    return before_program


def terminate(
    processes: Iterable[ProcessIdentity],
    *,
    grace_seconds: float,
    reap: Callable[[], object] = lambda: None,
) -> None:
    """Send SIGTERM to all, wait up to ``grace_seconds``, then SIGKILL the remaining ones and wait for them.

    ``reap`` is called between two checks, so that a parent can collect its own children.
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
