"""When what happened, in seconds since the story began, and how long each phase took."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.concurrency.clock import Clock

LONGEST = 5_000
"""Entries kept; a story has some hundreds."""


@dataclass(frozen=True)
class Entry:
    """One event. ``at`` is seconds since the start."""

    at: float
    event: str
    object: str


@dataclass
class Phase:
    """One step of the story. ``seconds`` is None while it is not done."""

    title: str
    started: float
    seconds: float | None = None
    failed: bool = False


@dataclass
class Timeline:
    """Starts when it is made."""

    clock: Clock
    entries: list[Entry] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start = self.clock.monotonic()

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock.monotonic() - self._start

    def add(self, event: str, subject: str) -> Entry | None:
        """Note an event now; None when the timeline is full."""
        if len(self.entries) >= LONGEST:
            return None
        entry = Entry(round(self.elapsed(), 3), event, subject)
        self.entries.append(entry)
        return entry

    def begin(self, title: str) -> Phase:
        """Start a phase."""
        phase = Phase(title, self.elapsed())
        self.phases.append(phase)
        return phase

    def end(self, phase: Phase, *, failed: bool = False) -> None:
        """End a phase."""
        phase.seconds = round(self.elapsed() - phase.started, 3)
        phase.failed = failed
