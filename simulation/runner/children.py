"""Work in forked child processes: a few at a time, each with a bound on its CPU time.

A simulated run leaves behind tasks that never end and changed modules, so each run has a process of its own. Everything
is imported before the fork, and a child starts in milliseconds.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import psutil

Task = TypeVar("Task")
Result = TypeVar("Result")

ENDING = (signal.SIGTERM, signal.SIGINT)
READ_BYTES = 65_536
POLL_SECONDS = 0.5
MEMORY_BYTES = 3 * 1024**3
"""Of addresses, many times of what a run needs: a loop that never waits would use up the machine's memory first."""
IDLE_SECONDS = 300.0
"""A child that waits for something real uses no CPU time; it is killed after so long."""
LEAST_USED = 0.01
"""Less CPU time than this share of the time that passed is none. A run on a busy machine gets more."""


@dataclass(frozen=True)
class Died:
    """A child that returned no result. ``reason`` is for people."""

    reason: str


@dataclass
class _Child(Generic[Task]):
    task: Task
    pid: int
    pipe: int
    idle_seconds: float
    since: float
    """Monotonic time at which ``used`` was noted."""
    used: float = 0.0
    """CPU time in seconds."""
    data: bytearray = field(default_factory=bytearray)
    idle: bool = False


def run_all(
    work: Callable[[Task], Result],
    tasks: Iterable[Task],
    jobs: int,
    cpu_seconds: float,
    idle_seconds: float = IDLE_SECONDS,
) -> Generator[tuple[Task, Result | Died], None, None]:
    """Each task with its result, in the order in which they end. Results must be picklable.

    Closing the generator kills the children that still run.
    """
    signal.signal(signal.SIGTERM, _interrupt)  # SIGTERM alone would leave the children running.
    gc.collect()
    gc.freeze()  # The children do not copy pages only to mark objects that live for ever.
    waiting = iter(tasks)
    running: list[_Child[Task]] = []

    def fork(task: Task) -> _Child[Task]:
        return _fork(work, task, cpu_seconds, idle_seconds)

    with selectors.DefaultSelector() as selector:
        try:
            while True:
                _fill(running, selector, waiting, jobs, fork)
                if not running:
                    return
                for child in _ended(running, selector):
                    yield child.task, _result(child, cpu_seconds)
        finally:
            for child in running:
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                os.close(child.pipe)


@contextmanager
def _signals_held() -> Iterator[None]:
    """An interruption between the fork and the entry of the child in the list would leave the child running."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _fill(
    running: list[_Child[Task]],
    selector: selectors.BaseSelector,
    waiting: Iterator[Task],
    jobs: int,
    fork: Callable[[Task], _Child[Task]],
) -> None:
    while len(running) < jobs:
        for task in waiting:
            with _signals_held():
                child = fork(task)
                running.append(child)
            selector.register(child.pipe, selectors.EVENT_READ, child)
            break
        else:
            return


def _fork(
    work: Callable[[Task], Result], task: Task, cpu_seconds: float, idle_seconds: float
) -> _Child[Task]:
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _live(work, task, theirs, cpu_seconds)
    os.close(theirs)
    return _Child(task, pid, ours, idle_seconds, time.monotonic())


def _live(work: Callable[[Task], Result], task: Task, pipe: int, cpu_seconds: float) -> None:
    """The whole life of a child; never returns. No handler and no buffer of the parent may run in it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the parent too, which kills its children.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    try:
        limit = int(cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))
        answer: object = work(task)
    except BaseException:  # noqa: BLE001  # the parent reports whatever ended the run
        lines = traceback.format_exc().strip().splitlines()
        answer = Died("\n".join([f"the simulation failed: {lines[-1]}", *lines[-13:-1]]))
    try:
        with os.fdopen(pipe, "wb") as stream:
            stream.write(pickle.dumps(answer))
    finally:
        os._exit(0)


def _ended(running: list[_Child[Task]], selector: selectors.BaseSelector) -> Iterator[_Child[Task]]:
    """Read what arrived; every child that closed its pipe, which is no longer in ``running`` then."""
    for key, _ in selector.select(POLL_SECONDS):
        child: _Child[Task] = key.data
        part = os.read(child.pipe, READ_BYTES)
        if part:
            child.data += part
            continue
        selector.unregister(child.pipe)
        os.close(child.pipe)
        running.remove(child)
        yield child
    for child in running:
        _end_if_idle(child)


def _end_if_idle(child: _Child[Task]) -> None:
    passed = time.monotonic() - child.since
    if child.idle or passed < child.idle_seconds:
        return
    times = psutil.Process(child.pid).cpu_times()
    before, child.used, child.since = child.used, times.user + times.system, time.monotonic()
    if child.used - before < LEAST_USED * passed:
        child.idle = True
        os.kill(child.pid, signal.SIGKILL)


def _result(child: _Child[Task], cpu_seconds: float) -> Result | Died:
    _, status = os.waitpid(child.pid, 0)
    if child.idle:
        return Died("the run waited for something outside the simulation and was killed")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number in (signal.SIGXCPU, signal.SIGKILL):
            return Died(f"the run needed more than {cpu_seconds:g} s of CPU")
        return Died(f"the run ended by {signal.Signals(number).name}")
    try:
        result: Result | Died = pickle.loads(bytes(child.data))
    except (EOFError, pickle.UnpicklingError) as error:
        return Died(f"the run ended without a result ({error})")
    return result
