"""JSON logs: a constant message, data in keys (OPS-20).

``configure`` is called once per process by the runtime; ``get_logger`` may be called at import time because
structlog binds lazily. A process that does not call it is a command: it writes errors to stderr, and nothing to stdout.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any, cast

from shared.distribution.version import COMMIT_VARIABLE
from shared.runtime.lean_imports import without

with without("rich"):
    # Only structlog's console renderer uses rich, which costs each service 3 MB.
    import structlog
    import structlog.tracebacks
    from structlog.contextvars import bound_contextvars

log_context = bound_contextvars
"""``with log_context(key=value)``: adds the keys to every log line inside the block."""
SHOWN_COMMIT = 7
TEXT_LIMIT = 2048
"""Maximum length of a string value in a log line, in characters, so that an object dump cannot fill the disk."""


def _cut_long_text(_logger: Any, _name: str, event: structlog.types.EventDict) -> Any:
    for key, value in event.items():
        if isinstance(value, str) and len(value) > TEXT_LIMIT:
            event[key] = value[:TEXT_LIMIT] + "…"
    return event


def _name_logger(_logger: Any, _name: str, event: structlog.types.EventDict) -> Any:
    # structlog reserves the key "logger" when a logger is created, so the name is bound under another key.
    if "logger_name" in event:
        event["logger"] = event.pop("logger_name")
    return event


def _commit() -> structlog.types.Processor:
    """OPS-20: adds the first seven characters of the build's commit, if known, to every line."""
    commit = os.environ.get(COMMIT_VARIABLE, "")[:SHOWN_COMMIT]

    def add(_logger: Any, _name: str, event: structlog.types.EventDict) -> Any:
        if commit:
            event.setdefault("commit", commit)
        return event

    return add


def _upper_level(_logger: Any, _name: str, event: structlog.types.EventDict) -> Any:
    event["level"] = str(event["level"]).upper()
    return event


def configure(level: str = "info", *, stream: Any = None) -> None:
    """Write logs of ``level`` and above to ``stream`` (stdout when None), one JSON object a line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _upper_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.EventRenamer("message"),
            _name_logger,
            _commit(),
            # Tracebacks must not show local variables, which may hold user data and credentials.
            structlog.processors.ExceptionRenderer(
                structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=20)
            ),
            _cut_long_text,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(file=stream or sys.stdout),
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger that adds ``logger: name`` to every line."""
    return cast(structlog.stdlib.BoundLogger, structlog.get_logger(logger_name=name))


configure("error", stream=sys.stderr)
