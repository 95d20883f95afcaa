"""Server-sent events: from bytes to messages. Pure, apart from what a Decoder remembers between two chunks.

Lines end with LF or CRLF. Comments, retry times and events of unknown names are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from cli.top.records import Beat, Change, Message, Snapshot

LONGEST_EVENT_BYTES = 256 * 2**20
"""A snapshot of the largest clusters is far smaller; without a limit a faulty server could fill the memory."""
LONGEST_ID = 256
_DECODERS: dict[str, msgspec.json.Decoder[Message]] = {
    "snapshot": msgspec.json.Decoder(Snapshot),
    "change": msgspec.json.Decoder(Change),
    "beat": msgspec.json.Decoder(Beat),
}


class Event(NamedTuple):
    """One event. ``id``: the last one that the stream has named so far, empty if none."""

    name: str
    data: bytes
    id: str


class Decoder:
    """Takes the chunks of one connection in their order. ``last_id``: where an earlier connection ended."""

    def __init__(self, last_id: str = "") -> None:
        self._id = last_id
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._line = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that end in this chunk. Raises ValueError for an event above LONGEST_EVENT_BYTES."""
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            self._line += end
            line = bytes(self._line).removesuffix(b"\r")
            self._line.clear()
            if (event := self._take(line)) is not None:
                yield event
        self._line += rest
        if self._size + len(self._line) > LONGEST_EVENT_BYTES:
            raise ValueError(f"an event of more than {LONGEST_EVENT_BYTES} bytes")

    def _take(self, line: bytes) -> Event | None:
        """An empty line ends an event. One without data is none, by the specification."""
        if line:
            self._field(line)
            return None
        event = Event(self._name, b"\n".join(self._data), self._id) if self._data else None
        self._name, self._data, self._size = "", [], 0
        return event

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
        elif name == b"event":
            self._name = value.decode(errors="replace")
        elif name == b"id" and _can_be_sent(value):
            self._id = value.decode("ascii")


def _can_be_sent(name: bytes) -> bool:
    """The id goes back in a header, which carries neither control characters nor texts of any length."""
    return len(name) <= LONGEST_ID and name.isascii() and name.decode("ascii").isprintable()


def message_of(event: Event) -> Message | None:
    """The message of an event, None for an unknown one. Raises ValueError when its data is not as agreed."""
    decoder = _DECODERS.get(event.name)
    return None if decoder is None else decoder.decode(event.data)


def snapshot_of(data: bytes) -> Snapshot:
    """The answer of /api/cluster. Raises ValueError when it is not a snapshot."""
    return msgspec.json.decode(data, type=Snapshot)
