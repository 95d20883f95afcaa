"""Collects every fault of an object instead of stopping at the first: a user mends a file once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from shared.errors import InvalidObject

Value = TypeVar("Value")


class Faults:
    """Sentences that name a field and say what is wrong with it."""

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
