"""What services know of tracing: spans with plain names and attributes. ``OFF`` records nothing and costs nothing.

A span is named by its ``traceparent``, which is what messages and the annotation of machines carry on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

from shared.redis.bus import Envelope

Attribute = str | int | float | bool | list[str]
MOST_NAMES = 20
"""Names in one attribute: of the pods of a machine, the machines of a call."""


class Span(Protocol):
    """One span that is open."""

    traceparent: str
    """"" where nothing is recorded."""

    def note(self, **attributes: Attribute) -> None:
        """Add attributes."""

    def fail(self, message: str) -> None:
        """What the span stands for went wrong. An exception that leaves the span does that by itself."""


class Tracer(Protocol):
    """Times are seconds since the epoch. ``parent``: a traceparent; "" begins a trace."""

    enabled: bool

    def span(
        self,
        name: str,
        *,
        parent: str | None = None,
        links: Sequence[str] = (),
        start: float | None = None,
        **attributes: Attribute,
    ) -> AbstractContextManager[Span]:
        """A span around a block, whose tasks and messages belong to it. ``parent`` None: the span that is open."""

    def message(self, envelope: Envelope, consumer: str) -> AbstractContextManager[object]:
        """A span around the handling of a message that belongs to a trace; nothing for any other message."""

    def record(
        self,
        name: str,
        *,
        parent: str,
        start: float,
        end: float,
        links: Sequence[str] = (),
        error: str = "",
        **attributes: Attribute,
    ) -> str:
        """A span that is over, with its error if it has one. Returns its traceparent."""

    async def close(self) -> None:
        """Send what is left, for a few seconds at most."""


class _NoSpan(AbstractContextManager[Span]):
    traceparent = ""

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def note(self, **attributes: Attribute) -> None:
        return

    def fail(self, message: str) -> None:
        return


NO_SPAN = _NoSpan()


class NoTracing:
    """Records nothing."""

    enabled = False

    def span(
        self,
        name: str,
        *,
        parent: str | None = None,
        links: Sequence[str] = (),
        start: float | None = None,
        **attributes: Attribute,
    ) -> AbstractContextManager[Span]:
        return NO_SPAN

    def message(self, envelope: Envelope, consumer: str) -> AbstractContextManager[object]:
        return NO_SPAN

    def record(
        self,
        name: str,
        *,
        parent: str,
        start: float,
        end: float,
        links: Sequence[str] = (),
        error: str = "",
        **attributes: Attribute,
    ) -> str:
        return ""

    async def close(self) -> None:
        return


OFF: Tracer = NoTracing()
