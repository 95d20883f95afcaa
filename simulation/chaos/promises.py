"""The promises of the simulation that can be seen from outside, judged by the same invariants.

Outside, who ordered a deletion is seen in the requests that pass the proxy, but nobody sees who wrote an object, nor
whether a write came before a call of AWS. Promises that need this are judged in simulated time only, and so are those
about a second replica and about the inside of a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from simulation.invariants import all_liveness, all_safety
from simulation.trace import Event, Trace

SAFETY = frozenset(
    {
        "one instance per machine",
        "a launch is written down before it happens",
        "launches stay within the limits of their pool",
        "no more machines are disrupted at once than budgets allow",
        "pods that must not be disturbed are not",
        "replacements are ready before machines go",
        "no pod goes against its budget",
        "every queue in Redis is bounded",
    }
)
QUEUES = "redis"
"""The kind of event at which queues are judged: they are read from Redis, so not on the event loop."""
INSIDE = frozenset(
    {
        "tasks of a process are bounded",
        "collections of a process are bounded",
        "every notice is settled",
        "reserved machines are in a reservation",
    }
)
"""Promises for the end that cannot be read from outside a process, or of the emulator in this process alone."""
NO_END = "no process ends by itself"
NO_UNSEEN_ERROR = "no task ends with an exception that nobody sees"
SHOWN = 5
"""Sentences of one promise, and events of each kind in the evidence."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that does not hold. ``evidence``: events that came before."""

    promise: str
    sentence: str
    at_seconds: float
    evidence: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"broken after {self.at_seconds:.1f} s: {self.promise}: {self.sentence}"


class Promises:
    """All of one run. ``checks`` counts how often each was judged; ``on_broken`` gets each break once."""

    def __init__(self, world: Any, on_broken: Callable[[Broken], object]) -> None:
        self._world, self._on_broken = world, on_broken
        self.checks: Counter[str] = Counter()
        self.broken: list[Broken] = []
        self._safety = [one for one in all_safety() if one.name in SAFETY]
        self._liveness = [one for one in all_liveness() if one.name not in INSIDE]

    def observe(self, event: Event) -> None:
        """Judge what must hold always, after an event of the world."""
        for one in self._safety:
            if event.kind in one.kinds:
                self.judge(one.name, one.check(event, self._world))

    def queues(self, event: Event) -> dict[str, list[str]]:
        """What is wrong with the queues, by promise. Raises RedisError."""
        return {
            one.name: one.check(event, self._world) for one in self._safety if QUEUES in one.kinds
        }

    def missing(self) -> dict[str, list[str]]:
        """What does not hold yet of what must in the end, by promise. Raises RedisError and OSError."""
        found = {one.name: one.check(self._world) for one in self._liveness}
        self.checks.update(found.keys())
        return {name: sentences for name, sentences in found.items() if sentences}

    def judge(self, promise: str, sentences: Iterable[str]) -> None:
        """Note that a promise was judged, and what is wrong."""
        self.checks[promise] += 1
        known = {(one.promise, one.sentence) for one in self.broken}
        for sentence in [one for one in sentences if (promise, one) not in known][:SHOWN]:
            trace: Trace = self._world.trace
            broken = Broken(promise, sentence, self._world.elapsed, evidence(trace.last, sentence))
            self.broken.append(broken)
            self._on_broken(broken)


def evidence(events: Iterable[Event], sentence: str) -> tuple[str, ...]:
    """The last events about what the sentence names, and the last faults, in words."""
    kept = [*events]
    faults = [one for one in kept if one.kind == "fault"][-SHOWN:]
    about = [one for one in kept if _named(one) and _named(one) in sentence][-SHOWN:]
    shown = {one.number: one for one in (*faults, *about)}
    return tuple(str(shown[number]) for number in sorted(shown))


def _named(event: Event) -> str:
    return str(event.fields.get("name") or "")
