"""CPU seconds by process: how a benchmark's time is divided among the processes of a local stack.

Linux only, from /proc. What may go wrong: the seconds of a process are lost when it ends; call ``record`` before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far; 0 when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


class CpuShares:
    """CPU seconds by name over processes that may be restarted. Call ``record`` regularly, and before one ends."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        """``pids``: running processes by name, which are counted from now on."""
        self._seen = {(name, pid): cpu_seconds(pid) for name, pid in pids.items()}
        self._before = dict(self._seen)

    def record(self, name: str, pid: int) -> None:
        """Records the CPU time of a process. A process that was not given before counts from its start."""
        self._seen[name, pid] = max(cpu_seconds(pid), self._seen.get((name, pid), 0.0))

    def seconds(self) -> dict[str, float]:
        """Name -> CPU seconds since the beginning, up to the last ``record``."""
        found: dict[str, float] = {}
        for (name, pid), seen in self._seen.items():
            found[name] = found.get(name, 0.0) + seen - self._before.get((name, pid), 0.0)
        return found
