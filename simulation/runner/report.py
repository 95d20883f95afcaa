"""What a person sees of many runs: progress, one block for each failing seed, one closing line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import indent

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from simulation.faults.plan import by_kind
from simulation.run import Outcome
from simulation.runner.children import Died
from simulation.runner.options import repeat_command
from simulation.runner.seeds import SeedTask

SHOWN_EVENTS = 15
SHOWN_SENTENCES = 5


@dataclass
class Totals:
    """Sums over all runs so far."""

    runs: int = 0
    failed: int = 0
    simulated_seconds: float = 0.0
    cpu_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome | Died) -> None:
        """Count one run."""
        self.runs += 1
        self.failed += failed(outcome)
        if isinstance(outcome, Outcome):
            self.simulated_seconds += outcome.simulated_seconds
            self.cpu_seconds += outcome.cpu_seconds
            self.faults.update(outcome.faults)

    def line(self) -> str:
        """The closing line."""
        speed = self.simulated_seconds / self.cpu_seconds if self.cpu_seconds else 0.0
        return (
            f"{self.runs:,} seeds, {self.failed:,} failed, {self.simulated_seconds / 3600:,.1f} simulated hours, "
            f"{speed:,.0f} simulated s per s of one core, {self.faults.total():,} faults"
        )


def failed(outcome: Outcome | Died) -> bool:
    """Whether an invariant broke, or the run did not end."""
    return isinstance(outcome, Died) or outcome.broken is not None


def invariant_of(outcome: Outcome | Died) -> str:
    """The name of the broken invariant; "" for a sound run."""
    if isinstance(outcome, Died):
        return "the run ends"
    return outcome.broken[0] if outcome.broken else ""


def failure(task: SeedTask, outcome: Outcome | Died) -> str:
    """What broke, the last events, and the command that repeats it."""
    at, sentences, last = _details(outcome)
    first = f"seed {task.seed} of {task.scenario}{at}: {invariant_of(outcome)}"
    parts = [first, *_indented(sentences[:SHOWN_SENTENCES])]
    if last:
        parts += ["  last events:", *_indented(last[-SHOWN_EVENTS:])]
    command = repeat_command(task.seed, task.scenario, task.minutes, task.keep, task.quiet_seconds)
    return "\n".join([*parts, f"  repeat: {command}"])


class Display:
    """Prints to a console; ``progress`` draws a bar while more than one seed runs."""

    def __init__(self, console: Console, seeds: int) -> None:
        self.totals = Totals()
        self._console = console
        # Without its thread: a process that has threads must not be forked.
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[found]}"),
            console=console,
            auto_refresh=False,
            transient=True,
            disable=seeds == 1 or not console.is_terminal,
        )
        self._bar = self._progress.add_task("seeds", total=seeds, found="")
        self._begun = time.monotonic()

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, task: SeedTask, outcome: Outcome | Died) -> None:
        """Count a run and print it if it failed."""
        self.totals.add(outcome)
        if failed(outcome):
            self.say(failure(task, outcome))
        found = f"{self.totals.failed} failed, {self.totals.faults.total():,} faults"
        self._progress.update(self._bar, advance=1, found=found)
        self._progress.refresh()

    def say(self, text: str) -> None:
        """Print one text as it is."""
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def close(self) -> None:
        """Print the totals."""
        self.say(by_kind(self.totals.faults))
        self.say(self.totals.line())


def _details(outcome: Outcome | Died) -> tuple[str, Sequence[str], Sequence[str]]:
    if isinstance(outcome, Died):
        return " failed", [outcome.reason], []
    sentences = outcome.broken[1] if outcome.broken else []
    return f" failed after {outcome.simulated_seconds:.1f} s", sentences, outcome.last


def _indented(lines: Sequence[str]) -> list[str]:
    return [indent(line, "    ") for line in lines]
