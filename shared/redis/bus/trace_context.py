"""In which trace the present task works: W3C's ``traceparent``, which envelopes carry from service to service.

Plain text, so that a message is sent and read without the OpenTelemetry SDK.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

current_trace: ContextVar[str] = ContextVar("current_trace", default="")
"""The span that the task is in; "" outside of any."""
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACE_ID = slice(3, 35)


def valid_trace(text: str) -> str:
    """``text`` if it is a traceparent of version 00, otherwise "": a trace must never make a message fail."""
    return text if _TRACEPARENT.fullmatch(text) else ""


def trace_id(traceparent: str) -> str:
    """The id that all spans of a trace share; "" for no trace."""
    return traceparent[_TRACE_ID]
