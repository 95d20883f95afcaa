"""The process that owns a local stack: it starts the parts in order, restarts parts that exit, and stops all parts.

Run as ``python -m local.supervisor DIRECTORY``; the settings are in ``DIRECTORY/stack.json``. Every part is a child
process that the kernel kills when this process ends, so no part outlives it. SIGTERM and SIGINT stop the stack in
reverse order.

A part that exits before the stack is ready fails the start; the error shows the last lines of its log. Later, a part
that exits is restarted after a back-off (like compose's restart policy). Redis, the emulator and the embedded cluster
keep their state in memory, so they are empty after a restart.
"""

from __future__ import annotations

import fcntl
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TextIO

from local.probe import probe
from local.process import identify, last_lines, spawn, terminate
from local.stack_plan import PROJECT, Part, StackPlan, StackSettings, choose_ports, plan_stack
from local.stack_state import (
    FAILED,
    READY,
    STOPPED,
    PartState,
    StackState,
    write_environment,
    write_state,
)
from shared.concurrency.backoff import doubled
from shared.errors import ConfigurationError, DovetailError

STOP_GRACE_SECONDS = 25.0
_POLL_SECONDS = 0.1
_FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 0.5, 10.0
_STEADY_SECONDS = 30.0
"""A part that ran this long has recovered: its next restart waits the first back-off again."""


class StackFailed(DovetailError):
    """A part did not become ready. The message names the part, the reason and the fix."""


@dataclass
class _Running:
    part: Part
    process: subprocess.Popen[bytes]
    since: float
    restarts: int = 0
    failures: int = 0
    """Consecutive exits, each within ``_STEADY_SECONDS`` of the start; the back-off grows with them."""
    start_at: float | None = None
    """Monotonic time of the next start of a part that exited; None while it runs."""


class Supervisor:
    """Owns the processes of one plan. Not thread-safe, but a signal handler may call ``stop``."""

    def __init__(self, plan: StackPlan, directory: Path) -> None:
        supervisor = identify(os.getpid())
        if supervisor is None:
            raise ConfigurationError(
                "this system shows no process start times; /proc or ps is needed"
            )
        self._plan = plan
        self._directory = directory
        self._logs = directory / "logs"
        self._state = StackState(supervisor, environment=plan.environment)
        self._running: dict[str, _Running] = {}
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Make ``run`` stop all parts and return."""
        self._stopping.set()

    def run(self) -> None:
        """Start the parts, supervise them until ``stop``, then stop them. Raises StackFailed when the start fails."""
        try:
            self._start()
            while not self._stopping.wait(_POLL_SECONDS):
                self._restart_exited()
        except StackFailed as error:
            self._write(FAILED, error.message)
            raise
        finally:
            self._stop_parts()
        self._write(STOPPED, "stopped")

    def _start(self) -> None:
        self._write()
        for wave in self._plan.waves:
            for part in wave:
                self._start_part(part)
            for part in wave:
                self._await_ready(part)
        if not self._stopping.is_set():
            write_environment(self._directory / "env", self._plan.environment)
            self._write(READY, "ready")

    def _start_part(self, part: Part) -> None:
        before = self._running.get(part.name)
        try:
            process = spawn(
                part.command,
                environment=part.environment,
                log=self._logs / f"{part.name}.log",
                directory=PROJECT,
                die_with_parent=True,
            )
        except OSError as error:
            raise StackFailed(f"{part.name} cannot start: {error}; fix: {part.fix}") from error
        running = _Running(part, process, time.monotonic())
        if before is not None:
            running.restarts, running.failures = before.restarts + 1, before.failures
        self._running[part.name] = running
        self._write()

    def _await_ready(self, part: Part) -> None:
        deadline = time.monotonic() + part.ready_within
        process = self._running[part.name].process
        self._write(message=f"waiting for {part.name}")
        reason: str | None = "not probed yet"
        while not self._stopping.wait(_POLL_SECONDS):
            if process.poll() is not None:
                raise self._failure(
                    part, f"ended with code {process.returncode} before it was ready"
                )
            reason = next((why for why in map(probe, part.probes) if why), None)
            if reason is None:
                return
            if time.monotonic() > deadline:
                raise self._failure(part, f"not ready after {part.ready_within:.0f} s: {reason}")

    def _failure(self, part: Part, why: str) -> StackFailed:
        log = self._logs / f"{part.name}.log"
        tail = "\n".join(f"  | {line[:400]}" for line in last_lines(log, 8)) or "  | (empty)"
        return StackFailed(f"{part.name} {why}\n{tail}\n  log: {log}\n  fix: {part.fix}")

    def _restart_exited(self) -> None:
        now = time.monotonic()
        for running in list(self._running.values()):
            if running.start_at is not None and now >= running.start_at:
                self._start_part(running.part)
            elif running.start_at is None and running.process.poll() is not None:
                self._schedule_restart(running, now)

    def _schedule_restart(self, running: _Running, now: float) -> None:
        if now - running.since > _STEADY_SECONDS:
            running.failures = 0
        delay = doubled(
            running.failures, first=_FIRST_BACKOFF_SECONDS, cap=_LONGEST_BACKOFF_SECONDS
        )
        running.failures += 1
        running.start_at = now + delay
        code = running.process.returncode
        self._write(message=f"{running.part.name} ended with code {code}; again in {delay:.1f} s")

    def _stop_parts(self) -> None:
        # Services first: Redis, the cluster and the emulator must answer while they end.
        for wave in reversed(self._plan.waves):
            started = [self._running[part.name] for part in wave if part.name in self._running]
            found = [identify(running.process.pid) for running in started]
            terminate(
                [identity for identity in found if identity is not None],
                grace_seconds=STOP_GRACE_SECONDS,
                reap=lambda: [running.process.poll() for running in started],  # noqa: B023
            )

    def _write(self, phase: str | None = None, message: str | None = None) -> None:
        self._state.phase = phase or self._state.phase
        self._state.message = self._state.message if message is None else message
        self._state.parts = [
            PartState(name, identity, running.restarts)
            for name, running in self._running.items()
            if (identity := identify(running.process.pid)) is not None
        ]
        write_state(self._directory / "state.json", self._state)


def lock_directory(directory: Path) -> TextIO:
    """Lock ``directory`` until this process ends. Raises ConfigurationError when another process holds the lock."""
    lock = (directory / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ConfigurationError(
            f"another stack runs in {directory}; stop it with `dovetail down` or pass --directory"
        ) from error
    return lock


def main(directory: Path) -> int:
    """Run the stack that ``stack.json`` describes. Returns the exit code."""
    settings = StackSettings.from_json((directory / "stack.json").read_bytes())
    (directory / "redis").mkdir(parents=True, exist_ok=True)
    with lock_directory(directory):
        ports = choose_ports(settings, random.Random())
        settings = replace(settings, mirror_key=settings.mirror_key or secrets.token_hex(16))
        supervisor = Supervisor(plan_stack(settings, ports), directory)

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            supervisor.stop()

        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)
        supervisor.run()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except DovetailError as failure:
        print(failure.message, file=sys.stderr)  # noqa: T201 - the parent shows the end of this log
        sys.exit(1)
