"""A plan of the local stack under its supervisor, in a thread of the test."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from local.stack_plan import StackPlan
from local.supervisor import Supervisor

START_SECONDS = 300.0


@contextlib.contextmanager
def supervised(plan: StackPlan, directory: Path) -> Iterator[None]:
    """Runs during the block, which begins when every part is ready."""
    for folder in ("logs", "redis"):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    supervisor = Supervisor(plan, directory)
    faults: list[BaseException] = []

    def run() -> None:
        try:
            supervisor.run()
        except BaseException as error:  # noqa: BLE001 (told to the test below)
            faults.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    try:
        _await_ready(directory, running, faults)
        yield
    finally:
        supervisor.stop()
        running.join()


def _await_ready(directory: Path, running: threading.Thread, faults: list[BaseException]) -> None:
    for _ in range(int(START_SECONDS / 0.2)):
        if (directory / "env").exists():
            return
        running.join(0.2)
        assert running.is_alive(), faults
    raise AssertionError(f"not ready after {START_SECONDS:.0f} s")
