"""Groups of tasks after whose failure the task that waited for them can go on."""

from __future__ import annotations

import asyncio
from types import TracebackType


class TaskGroup(asyncio.TaskGroup):  # noqa: TID251  the one place that may
    """As asyncio's, but a group whose member failed leaves no cancellation behind.

    Up to Python 3.12 a member that fails while the group is waited for cancels the waiting task, and nothing takes
    that back. Up to 3.11.2, which Debian has, each later ``asyncio.timeout`` of that task then ends with CancelledError
    in the place of TimeoutError: a loop that caught the error of the group ended at its next pause, without a word.
    """

    _before = 0

    async def __aenter__(self) -> TaskGroup:
        """The group."""
        self._before = _current().cancelling()
        await super().__aenter__()
        return self

    async def __aexit__(
        self,
        et: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Wait for all. Raises an ExceptionGroup of what members raised, and what ``asyncio.TaskGroup`` does."""
        requested = self._requested()
        try:
            await super().__aexit__(et, exc, tb)
        except BaseExceptionGroup:
            if self._requested() and not requested and _current().cancelling() > self._before:
                _current().uncancel()
            raise

    def _requested(self) -> bool:
        """Did a member cancel the waiting task? Others may have as well, which stays."""
        return bool(getattr(self, "_parent_cancel_requested", False))


def is_cancelled() -> bool:
    """Did somebody cancel the running task?"""
    return _current().cancelling() > 0


def _current() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a group of tasks needs a task that waits for it")
    return task
