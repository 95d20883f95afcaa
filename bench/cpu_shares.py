"""CPU seconds by process: which part of a stack on one machine a benchmark's time went to.

Linux only, by /proc. What may go wrong: a process that ended takes its seconds with it; look before it ends.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, 0 when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


class CpuShares:
    """Sums over named processes, each of which may be started anew. ``look`` now and then, and before one ends."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        """What runs now is counted from now on."""
        self._seen = {(name, pid): cpu_seconds(pid) for name, pid in pids.items()}
        self._before = dict(self._seen)

    def look(self, name: str, pid: int) -> None:
        """Note how far this process is; one that is new is counted from its start."""
        self._seen[name, pid] = max(cpu_seconds(pid), self._seen.get((name, pid), 0.0))

    def seconds(self) -> dict[str, float]:
        """Name -> CPU seconds since the beginning, as far as was looked."""
        found: dict[str, float] = {}
        for (name, pid), seen in self._seen.items():
            found[name] = found.get(name, 0.0) + seen - self._before.get((name, pid), 0.0)
        return found
