"""What is wrong with an object: every fault at once, each with the path of its field, so a user mends a file once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from shared.errors import InvalidObject

Value = TypeVar("Value")
Record = TypeVar("Record")
Path = tuple[str | int, ...]
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9]*")


def field_text(path: Path) -> str:
    """``spec.requirements[0].key``; names that are no identifiers go into brackets, as label keys do."""
    text = ""
    for part in path:
        plain = isinstance(part, str) and _PLAIN.fullmatch(part) is not None
        text += f".{part}" if plain else f"[{part}]"
    return text.removeprefix(".")


class Fault(NamedTuple):
    """One field and what is wrong with it. The message says how to mend it."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{field_text(self.path)}: {self.message}"


@dataclass(frozen=True)
class Parsed(Generic[Record]):
    """A domain record, or (with faults) None: an object with faults must not be used."""

    record: Record | None
    faults: tuple[Fault, ...] = ()

    def require(self, what: str) -> Record:
        """The record. Raises InvalidObject with every fault; ``what`` names the object."""
        if self.record is None:
            raise InvalidObject("; ".join(str(fault) for fault in self.faults), field=what)
        return self.record


class Faults:
    """Collects faults where a document is read field by field."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def attempt(self, read: Callable[[], Value], default: Value) -> Value:
        """The value read, or ``default`` with the fault noted."""
        try:
            return read()
        except InvalidObject as error:
            self.found.append(str(error))
        return default

    def note(self, field: str, message: str) -> None:
        """Add one fault."""
        self.found.append(f"{field}: {message}")


def texts_of(faults: Iterable[Fault]) -> tuple[str, ...]:
    """Sentences for conditions, events and logs."""
    return tuple(str(fault) for fault in faults)
