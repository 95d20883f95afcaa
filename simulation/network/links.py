"""What the network does with traffic between two parties: latency, cuts, partitions, slow readers.

Parties are names of processes ("scheduler-0") and servers ("redis", "api", "aws"). All times are virtual seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

LATENCY_SECONDS = (0.0002, 0.002)
"""Shortest and longest usual time in one direction."""
Fate = Literal["pass", "reset"]
When = Literal["before", "after"]


@dataclass
class Link:
    """The state between two parties."""

    blocked_until: float = 0.0
    slow_until: float = 0.0
    slow_seconds: float = 0.0
    cut_next: str = ""
    """The sender whose next bytes are lost together with the connection; "" for none."""
    answer_cut: str = ""
    """The sender whose next bytes pass, after which the answer is lost together with the connection."""


class Links:
    """Links by pair of names; the pair has no direction."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._links: dict[tuple[str, str], Link] = {}
        self._party_slow: dict[str, tuple[float, float]] = {}
        self.time: Callable[[], float] = lambda: 0.0

    def of(self, first: str, second: str) -> Link:
        """The link between two parties."""
        pair = (first, second) if first < second else (second, first)
        found = self._links.get(pair)
        if found is None:
            found = self._links[pair] = Link()
        return found

    def latency(self, sender: str, receiver: str) -> float:
        """Seconds until bytes that are sent now would arrive, without partitions."""
        shortest, longest = LATENCY_SECONDS
        seconds = shortest + self._random.random() * (longest - shortest)
        link = self._links.get((sender, receiver) if sender < receiver else (receiver, sender))
        if link is not None and link.slow_until > self.time():
            seconds += link.slow_seconds * self._random.random()
        if receiver in self._party_slow:
            until, slow = self._party_slow[receiver]
            if until > self.time():
                seconds += slow
        return seconds

    def blocked_until(self, first: str, second: str) -> float:
        """When the partition between them ends; in the past if there is none."""
        link = self._links.get((first, second) if first < second else (second, first))
        return 0.0 if link is None else link.blocked_until

    def arrival(self, sender: str, receiver: str) -> float:
        """When bytes that are sent now arrive: TCP sends again what a partition swallowed."""
        now = self.time()
        blocked = self.blocked_until(sender, receiver)
        return (blocked if blocked > now else now) + self.latency(sender, receiver)

    def fate(self, sender: str, receiver: str) -> Fate:
        """Whether bytes pass, or are lost with their connection."""
        link = self._links.get((sender, receiver) if sender < receiver else (receiver, sender))
        if link is None:
            return "pass"
        if link.cut_next == sender:
            link.cut_next = ""
            return "reset"
        if link.answer_cut == sender:
            link.answer_cut, link.cut_next = "", receiver
        return "pass"

    # Faults

    def partition(self, first: str, second: str, seconds: float) -> None:
        """Nothing passes between two parties for ``seconds``; afterwards everything arrives."""
        link = self.of(first, second)
        link.blocked_until = max(link.blocked_until, self.time() + seconds)

    def slow(self, first: str, second: str, extra_seconds: float, seconds: float) -> None:
        """For ``seconds`` bytes take up to ``extra_seconds`` longer."""
        link = self.of(first, second)
        link.slow_until, link.slow_seconds = self.time() + seconds, extra_seconds

    def slow_reader(self, party: str, extra_seconds: float, seconds: float) -> None:
        """For ``seconds`` everything that is sent to ``party`` takes ``extra_seconds`` longer."""
        self._party_slow[party] = (self.time() + seconds, extra_seconds)

    def cut(self, sender: str, receiver: str, when: When) -> None:
        """The next request of ``sender`` is lost with its connection (``before``), or its answer is (``after``)."""
        link = self.of(sender, receiver)
        if when == "before":
            link.cut_next = sender
        else:
            link.answer_cut = sender
