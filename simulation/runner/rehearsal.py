"""A run before all others, in the process that forks them: it fills every cache that outlives a run.

Client libraries and the emulators read models, build validators and compile patterns when they first need them, and
Python adapts its code to the values that it meets. Without a rehearsal each run does all of that again. The rehearsal
is always the same one, and whatever it replaced is given back. A few draws of moto happen only once for each process,
so every seed runs after it: a trace does not depend on how many seeds run.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from moto.sqs.models import Queue

from shared.concurrency.clock import SystemClock
from simulation import determinism
from simulation.plan import plan_of
from simulation.run import simulate
from simulation.servers import moto_time
from simulation.settings import RunSettings

SEED = 0
MINUTES = 1.0
"""Long enough for launches and for every loop of the services. Two seconds of CPU."""
QUIET_SECONDS = 5.0

_kept: list[Any] = []
"""What the rehearsal left behind: if its tasks were collected, the ``finally`` blocks of their coroutines would run."""


def rehearse() -> None:
    """Run once, unless that was done. What breaks in it breaks in no run, so it is not reported."""
    if _kept:
        return
    settings = RunSettings(SEED, MINUTES, "quiet", quiet_seconds=QUIET_SECONDS)
    with _process_given_back():
        simulate(settings, plan_of(settings), keep=_kept.append)


@contextmanager
def _process_given_back() -> Iterator[None]:
    environment, logs, disabled = (
        dict(os.environ),
        structlog.get_config(),
        logging.root.manager.disable,
    )
    add_message = Queue.add_message
    try:
        yield
    finally:
        determinism.uninstall()
        moto_time.install(SystemClock())
        Queue.add_message = add_message
        structlog.configure(**logs)
        logging.disable(disabled)
        os.environ.clear()
        os.environ.update(environment)
        _forget_tasks(asyncio.get_event_loop_policy().get_event_loop())
        asyncio.set_event_loop(None)
        gc.enable()


def _forget_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Take the tasks out of asyncio's list, through which every run looks."""
    for task in asyncio.all_tasks(loop):
        _kept.append(task)
        asyncio.tasks._unregister_task(task)
