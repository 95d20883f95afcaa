"""Exceptions that a service logs and survives: each must be of a kind that its author foresaw.

The runtime logs an exception of a loop, counts it and starts the loop again; handlers of messages, notices and objects
are contained in the same way. So a fault of the code ends nothing and shows in nothing but a log line. Every line of a
service that is written while an exception is handled becomes an event, and this file judges it.
"""

from __future__ import annotations

import logging
import sys
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from shared.errors import Conflict, DovetailError, Gone, TransientError, Unauthorized

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

FORESEEN: tuple[type[BaseException], ...] = (DovetailError, TimeoutError, CancelledError)
"""What may be logged. Everything else is a fault of the code: an adapter that lets an error of its client library
through, or a wrong assumption. TimeoutError is that of a handler which used up its time, CancelledError that of a task
which is stopped."""
ENDS_A_LOOP: tuple[type[BaseException], ...] = (TransientError, Conflict, Gone, Unauthorized)
"""What may end a supervised loop: a server that cannot be reached or refuses. All other errors have a cause that the
loop knows better than its supervisor."""
LINES_PER_MINUTE = 1_200
"""Of one process. More fill a disk."""
TEXT_LIMIT = 300

Note = Callable[..., None]
"""Gets what is logged, the class of the exception, its text, whether it was foreseen (1) or not (0), and the id of the
message that it is about and how often that was delivered, if it is about one."""


def observe_logs(note: Note) -> None:
    """Call ``note`` with each warning and error that a service logs, and write no log."""

    def observe(_logger: Any, _method: str, event: structlog.types.EventDict) -> Any:
        error = sys.exc_info()[1]
        note(
            what=" ".join(str(event[key]) for key in ("event", "loop", "type") if key in event),
            error="" if error is None else type(error).__name__,
            text=str(event.get("error") or error or "")[:TEXT_LIMIT],
            foreseen=int(_is_foreseen(error, "exc_info" in event, "loop" in event)),
            entry=event.get("entry"),
            deliveries=event.get("deliveries"),
        )
        raise structlog.DropEvent

    structlog.configure(
        processors=[observe],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        cache_logger_on_first_use=False,
    )


def _is_foreseen(error: BaseException | None, with_traceback: bool, ends_a_loop: bool) -> bool:
    if error is None or with_traceback:  # log.exception says that nobody expected it.
        return error is None
    return isinstance(error, ENDS_A_LOOP if ends_a_loop else FORESEEN)


@dataclass
class EveryFailureIsForeseen:
    """R8, F29: no loop, message, notice or object fails with an exception that its author did not foresee."""

    name: str = "every failure is one that was foreseen"
    kinds: tuple[str, ...] = ("failure",)
    _lines: dict[tuple[str, int], int] = field(default_factory=dict)
    """Process and minute -> lines."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a service logs a warning or an error."""
        fields = event.fields
        name, minute = str(fields["name"]), int(event.at // 60)
        lines = self._lines[name, minute] = self._lines.get((name, minute), 0) + 1
        if lines == LINES_PER_MINUTE:
            return [f"{name} logged {lines} warnings within a minute, the last: {fields['what']}"]
        if fields["foreseen"]:
            return []
        return [f"{name}: {fields['what']}: {fields['error']}: {fields['text']}"]
