"""A call of a function in a child process.

The function neither blocks the event loop of this process nor keeps memory in it. The child is killed after a timeout,
and when the caller is cancelled. A thread waits for the child, so that its start and end do not block the loop either.

Errors of the function are raised here; a child that dies, exceeds its time or its memory raises ChildFailed. A child
whose parent is killed exits. Ctrl-C is for the parent alone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from shared.errors import DovetailError, Unavailable

Argument = TypeVar("Argument")
Result = TypeVar("Result")
POLL_SECONDS = 0.2
"""The delay after which a child is killed when its caller was cancelled."""
END_SECONDS = 5.0
"""How long a child may take to exit after its result, before it is killed."""


class ChildFailed(Unavailable):
    """The child process returned no result."""


@dataclass(frozen=True)
class Bounds:
    """Limits of a child. ``name`` is for errors; ``memory_bytes`` 0 means no limit; ``niceness`` is added to that of
    the parent."""

    name: str
    seconds: float
    memory_bytes: int = 0
    niceness: int = 0


async def in_child(
    work: Callable[[Argument], Result], argument: Argument, bounds: Bounds
) -> Result:
    """``work(argument)``; ``work`` must be a module-level function, argument and result must be picklable.

    Raises ChildFailed and the DovetailErrors of ``work``.
    """
    abandoned = threading.Event()
    try:
        return await asyncio.to_thread(_in_child, work, argument, bounds, abandoned)
    finally:
        abandoned.set()


def _in_child(
    work: Callable[[Argument], Result],
    argument: Argument,
    bounds: Bounds,
    abandoned: threading.Event,
) -> Result:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(theirs, work, argument, bounds), daemon=True)
    with ours:
        _start(child)
        theirs.close()  # Only the child holds the sending end now, so its death closes the pipe.
        try:
            found = _received(ours, bounds, abandoned)
        except BaseException:
            child.kill()
            raise
        finally:
            _reap(child)
    if isinstance(found, DovetailError):
        raise found
    return found  # type: ignore[no-any-return]


def _start(child: BaseProcess) -> None:
    """Start a child that SIGINT does not reach: a terminal sends it to all, and the parent ends the child.

    The child inherits the mask of this thread, so SIGINT is blocked from its first instruction on, before our code
    runs there. The tracker of resources must run already, because its start unblocks SIGINT.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        child.start()
        return
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        child.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _received(pipe: Connection, bounds: Bounds, abandoned: threading.Event) -> Any:
    for _ in range(max(1, round(bounds.seconds / POLL_SECONDS))):
        if pipe.poll(POLL_SECONDS):
            try:
                return pipe.recv()
            except (EOFError, OSError) as error:
                raise ChildFailed(f"the process of {bounds.name} died") from error
        if abandoned.is_set():
            break
    raise ChildFailed(f"{bounds.name} took longer than {bounds.seconds:g} s")


def _reap(child: BaseProcess) -> None:
    """Wait for the child to exit, and kill it if it does not."""
    child.join(END_SECONDS)
    if child.is_alive():
        child.kill()
        child.join(END_SECONDS)


def _answer(
    pipe: Connection, work: Callable[[Argument], Result], argument: Argument, bounds: Bounds
) -> None:
    """The main function of the child: sends the result or the error of ``work`` to the parent."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _bind(bounds)
    found: object
    try:
        found = work(argument)
    except DovetailError as error:
        found = error
    except MemoryError:
        found = ChildFailed(f"{bounds.name} needs more than {bounds.memory_bytes >> 20} MiB")
    with pipe:
        pipe.send(found)


def _bind(bounds: Bounds) -> None:
    if bounds.niceness and hasattr(os, "nice"):
        os.nice(bounds.niceness)
    if bounds.memory_bytes:
        try:
            import resource
        except ImportError:  # Windows: the time alone is bounded
            return
        resource.setrlimit(resource.RLIMIT_DATA, (bounds.memory_bytes, bounds.memory_bytes))


def _end_with_parent() -> None:
    """Exit when the parent has ended: a parent that is killed cannot end its children."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
