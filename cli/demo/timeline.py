"""The events of a scenario, in seconds since its start, and the duration of each phase."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.concurrency.clock import Clock

ENTRY_LIMIT = 5_000
"""Entries kept. A scenario has some hundreds."""


@dataclass(frozen=True)
class Entry:
    """One event. ``at`` is seconds since the start."""

    at: float
    event: str
    object: str


@dataclass
class Phase:
    """One phase of a scenario. ``seconds`` is None while it runs."""

    title: str
    started: float
    seconds: float | None = None
    failed: bool = False


@dataclass
class Timeline:
    """Events and phases. The time starts with the creation of the object."""

    clock: Clock
    entries: list[Entry] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start = self.clock.monotonic()

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock.monotonic() - self._start

    def add(self, event: str, subject: str) -> Entry | None:
        """Add an event at the current time. Returns None if the timeline is full."""
        if len(self.entries) >= ENTRY_LIMIT:
            return None
        entry = Entry(round(self.elapsed(), 3), event, subject)
        self.entries.append(entry)
        return entry

    def begin(self, title: str) -> Phase:
        """Begin a phase at the current time."""
        phase = Phase(title, self.elapsed())
        self.phases.append(phase)
        return phase

    def end(self, phase: Phase, *, failed: bool = False) -> None:
        """End a phase at the current time."""
        phase.seconds = round(self.elapsed() - phase.started, 3)
        phase.failed = failed
