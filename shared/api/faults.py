"""Faults of an object, each with the path of its field. All faults are reported at once, so one edit fixes a file."""

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
    """``spec.requirements[0].key``; indices and names that are not identifiers, such as label keys, are in brackets."""
    text = ""
    for part in path:
        plain = isinstance(part, str) and _PLAIN.fullmatch(part) is not None
        text += f".{part}" if plain else f"[{part}]"
    return text.removeprefix(".")


class Fault(NamedTuple):
    """A field and what is wrong with it. The message includes the fix."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{field_text(self.path)}: {self.message}"


@dataclass(frozen=True)
class Parsed(Generic[Record]):
    """A domain record, or None with faults: an object with faults must not be used."""

    record: Record | None
    faults: tuple[Fault, ...] = ()

    def require(self, what: str) -> Record:
        """The record. Raises InvalidObject with every fault; ``what`` names the object."""
        if self.record is None:
            raise InvalidObject("; ".join(str(fault) for fault in self.faults), field=what)
        return self.record


class Faults:
    """Collects the faults of a document that is read field by field."""

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
    """The faults as strings, for conditions, events and logs."""
    return tuple(str(fault) for fault in faults)
