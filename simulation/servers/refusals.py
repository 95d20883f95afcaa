"""Requests that the API server refuses although nothing is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

REFUSALS = {
    409: ("Conflict", "the object has been modified; please apply your changes to the latest one"),
    429: ("TooManyRequests", "the server has received too many requests and asks to try later"),
    500: ("InternalError", "Internal error occurred: etcdserver: request timed out"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}
"""Reason and message of the statuses with which requests are refused."""
CONFLICT = 409
CHANGES = frozenset({"PUT", "PATCH", "DELETE"})
"""Methods that can conflict with another client's change."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A share of the requests gets ``status`` until ``until``."""

    status: int
    percent: float
    until: float


class Refusals:
    """The refusals that are in force. ``random`` draws the requests."""

    def __init__(self, random: Random, time: Callable[[], float]) -> None:
        self._random, self._time = random, time
        self._refusals: list[Refusal] = []

    def add(self, status: int, percent: float, seconds: float) -> None:
        """Refuse a share of the requests for ``seconds``."""
        self._refusals.append(Refusal(status, percent, self._time() + seconds))

    def status(self, method: str) -> int:
        """The status with which to refuse this request; 0 to carry it out."""
        if not self._refusals:
            return 0
        now = self._time()
        self._refusals = [one for one in self._refusals if one.until > now]
        for one in self._refusals:
            applies = one.status != CONFLICT or method in CHANGES
            if applies and self._random.random() * 100 < one.percent:
                return one.status
        return 0
