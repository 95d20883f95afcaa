"""The envelope: a message as the fields of one stream entry.

A message names an object; its handler re-reads that object before it acts (R1), so an envelope is small. Sizes are
checked when an envelope is encoded (InvalidObject: a fault of the sender) and when it is decoded (BadMessage: the entry
becomes a dead letter). Decoding ignores fields that a newer minor version adds (F30).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

from shared.errors import DovetailError, InvalidObject
from shared.redis.bus.trace_context import valid_trace

SUPPORTED_VERSION = 1
"""Highest major version of an envelope that this build understands."""
BODY_LIMIT_BYTES = 64 * 1024
_TEXT_LIMITS = {"id": 128, "type": 64, "key": 512, "cause": 128, "only_group": 64}
"""Longest value of each text field, in characters."""
_REQUIRED = ("id", "type", "key")


class BadMessage(DovetailError):
    """A message that fails however often it is delivered. The consumer makes it a dead letter at once."""


class RetryLater(DovetailError):
    """Raised by a handler: deliver this message again later.

    ``seconds`` None means an exponential delay by attempt: 1, 2, 4 … 300 s, each ± 50 %.
    """

    def __init__(self, seconds: float | None = None, message: str = "retry requested") -> None:
        super().__init__(message, seconds=seconds)
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One message. ``at`` is wall time in seconds since 1970.

    ``id`` identifies the fact, not the copy: the same id published twice within a minute is added
    once. ``attempt`` counts delayed retries; ``only_group`` names the only group that a retry is for.
    ``trace``: W3C's traceparent of the span that sent it, which its handling belongs to; "" without tracing.
    """

    id: str
    type: str
    key: str
    body: bytes
    at: float
    version: int = SUPPORTED_VERSION
    cause: str = ""
    attempt: int = 0
    only_group: str = ""
    trace: str = ""

    def encode(self) -> dict[str, bytes]:
        """The stream fields. Raises InvalidObject that names a field which is empty or too long."""
        problem = _find_problem(self)
        if problem:
            field, message = problem
            raise InvalidObject(message, field=field)
        fields = {name: str(getattr(self, name)).encode() for name in _ENCODED_AS_TEXT}
        trace = {"trace": self.trace.encode()} if self.trace else {}
        return {**fields, **trace, "body": self.body}

    def for_retry(self, group: str) -> Self:
        """A copy for the next delayed retry, for one group only."""
        return replace(self, attempt=self.attempt + 1, only_group=group)

    @classmethod
    def decode(cls, fields: Mapping[bytes, bytes]) -> Self:
        """The envelope of one stream entry. Raises BadMessage for anything malformed."""
        try:
            text = {
                name: fields[name.encode()].decode()
                for name in _ENCODED_AS_TEXT
                if name.encode() in fields
            }
            envelope = cls(
                id=text["id"],
                type=text["type"],
                key=text["key"],
                body=fields[b"body"],
                at=float(text["at"]),
                version=int(text["version"]),
                cause=text.get("cause", ""),
                attempt=int(text.get("attempt", "0")),
                only_group=text.get("only_group", ""),
                trace=valid_trace(fields.get(b"trace", b"").decode(errors="replace")),
            )
        except (KeyError, ValueError) as error:
            raise BadMessage(f"not an envelope: {type(error).__name__} {error}") from error
        problem = _find_problem(envelope)
        if problem:
            raise BadMessage(f"{problem[0]}: {problem[1]}")
        return envelope


_ENCODED_AS_TEXT = (
    "id",
    "type",
    "version",
    "key",
    "cause",
    "at",
    "attempt",
    "only_group",
)


def _find_problem(envelope: Envelope) -> tuple[str, str] | None:
    """The first broken rule as (field, message), None when the envelope is fine."""
    for name in _REQUIRED:
        if not getattr(envelope, name):
            return name, "must not be empty"
    for name, limit in _TEXT_LIMITS.items():
        if len(getattr(envelope, name)) > limit:
            return name, f"longer than {limit} characters"
    if len(envelope.body) > BODY_LIMIT_BYTES:
        return (
            "body",
            f"{len(envelope.body)} bytes, at most {BODY_LIMIT_BYTES}: send the name of an object instead",
        )
    if not math.isfinite(envelope.at):
        return "at", "must be a finite number of seconds"
    if envelope.version < 1 or envelope.attempt < 0:
        return "version", "version starts at 1 and attempt at 0"
    return None


class Handler(Protocol):
    """A service's function for one message.

    Returning settles the message. ``RetryLater`` delays it, ``BadMessage`` makes it a dead letter, any other error
    leaves it pending: it is delivered again, up to the delivery limit, and then becomes a dead letter.
    """

    async def __call__(self, envelope: Envelope) -> None: ...
