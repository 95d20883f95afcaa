"""One piece of work in a process of its own, which ends with it.

The work neither stalls this process' event loop nor stays in its memory, and may be cut off: after a time, and at once
when nobody waits for it any more. A thread waits for the child, so starting and ending it do not stall the loop either.

What may go wrong: what the work raises is raised here; a child that dies, takes too long or wants too much memory is
ChildFailed. A child whose parent is killed ends by itself.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from shared.errors import DovetailError, Unavailable

Argument = TypeVar("Argument")
Result = TypeVar("Result")
POLL_SECONDS = 0.2
"""How soon a child is killed that nobody waits for."""
END_SECONDS = 5.0
"""How long a child that has answered may take to end."""


class ChildFailed(Unavailable):
    """The child process gave no answer."""


@dataclass(frozen=True)
class Bounds:
    """``name`` of the work in errors; ``memory_bytes`` 0: no bound; ``niceness`` is added to that of the parent."""

    name: str
    seconds: float
    memory_bytes: int = 0
    niceness: int = 0


async def in_child(
    work: Callable[[Argument], Result], argument: Argument, bounds: Bounds
) -> Result:
    """``work(argument)``; ``work`` is a function of a module, argument and result can be pickled.

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
        child.start()
        theirs.close()  # so that the end of the child is the end of the pipe
        try:
            found = _received(ours, bounds, abandoned)
        except BaseException:
            child.kill()
            raise
        finally:
            _bury(child)
    if isinstance(found, DovetailError):
        raise found
    return found  # type: ignore[no-any-return]


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


def _bury(child: BaseProcess) -> None:
    """It has nothing left to do once it answered."""
    child.join(END_SECONDS)
    if child.is_alive():
        child.kill()
        child.join(END_SECONDS)


def _answer(
    pipe: Connection, work: Callable[[Argument], Result], argument: Argument, bounds: Bounds
) -> None:
    """The child's life."""
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
    """A parent that was killed cannot end its children."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
