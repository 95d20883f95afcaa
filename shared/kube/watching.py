"""The watch wire format: one JSON object per line, on an answer that stays open.

Source: Kubernetes API concepts, "Efficient detection of changes". What may go wrong: the stream ends inside a line
(``Unreachable``: resume from the last whole event), the server reports that the position is too old (``Gone``) or
another failure (an ERROR event), a line never ends (``Unavailable`` beyond 16 MiB).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from shared.api.v1.auto_mode import is_of_others
from shared.errors import DovetailError, Gone, Unavailable, Unreachable
from shared.kube.transport.connection import Answer
from shared.kube.transport.statuses import Call, error_of

LONGEST_LINE_BYTES = 16 * 1024 * 1024
"""etcd stores no object over 1.5 MiB, so a longer line is not a watch event."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """``type`` is ADDED, MODIFIED, DELETED or BOOKMARK; ``object`` is the decoded object."""

    type: str
    object: dict[str, Any]


class LineSplitter:
    """Joins chunks of any size into whole lines."""

    def __init__(self, limit: int = LONGEST_LINE_BYTES) -> None:
        self._pieces: list[bytes] = []
        self.pending = 0
        """Bytes of the line that has not ended."""
        self._limit = limit

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes, without newlines. Raises Unavailable."""
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._pieces, whole[0]))
            self._pieces, self.pending = [], 0
        if rest:
            self._pieces.append(rest)
            self.pending += len(rest)
        if self.pending > self._limit:
            raise Unavailable(f"a line of the watch is longer than {self._limit} bytes")
        return [line for line in whole if line]


async def read_lines(
    call: Call, answer: Answer, on_bytes: Callable[[], None] | None
) -> AsyncGenerator[bytes, None]:
    """The lines of an open watch; ``on_bytes`` is called first and for each chunk. Raises Unreachable, Unavailable."""
    splitter = LineSplitter()
    if on_bytes:
        on_bytes()  # the server has accepted the watch; the first event may be a minute away
    async for chunk in answer.content.iter_any():
        if on_bytes:
            on_bytes()
        for line in splitter.feed(chunk):
            yield line
    if splitter.pending:
        raise Unreachable(f"{call}: the stream ended inside an event")


def parse_event(call: Call, line: bytes) -> WatchEvent:
    """One line of a watch as an event: DELETED for an object of another autoscaler, so that it never counts as there.

    Raises Gone, or the error that another ERROR event reports.
    """
    try:
        event = orjson.loads(line)
        kind, body = event["type"], event["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Unavailable(f"{call}: a line is no watch event: {error}") from error
    if kind == "ERROR":
        raise _error_event(call, body if isinstance(body, dict) else {})
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise Unavailable(f"{call}: a {kind} event carries no object")
    if kind != "BOOKMARK" and is_of_others(call.resource.kind, body):
        kind = "DELETED"
    return WatchEvent(kind, body)


def _error_event(call: Call, status: dict[str, Any]) -> DovetailError:
    # The API server writes "Expired" with code 410 into a running watch; some proxies remove the code.
    if status.get("reason") in ("Expired", "Gone"):
        return Gone(f"{call}: {status.get('message') or 'the position has expired'}")
    code = status.get("code")
    return error_of(call, code if isinstance(code, int) and code >= 400 else 500, status, {})
