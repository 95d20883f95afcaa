"""What a person sees of a run: a line for everything that happens, a bar with the counts, and the closing lines."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from simulation.chaos.run import Outcome
from simulation.faults.plan import by_kind

REFRESHES_PER_SECOND = 2


class Display:
    """Prints to a console; ``progress`` draws a bar on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[found]}"),
            console=console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task("the stack starts", total=None, found="")

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Print one text as it is."""
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def show(self, outcome: Outcome, elapsed: float, seconds: float) -> None:
        """Draw the bar: how much of ``seconds`` with users and faults is over, and what was found."""
        is_quiet = elapsed >= seconds
        self._progress.update(
            self._bar,
            description="quiet end" if is_quiet else "users and faults",
            total=None if is_quiet else seconds,
            completed=min(elapsed, seconds),
            found=counts(outcome),
        )


def counts(outcome: Outcome) -> str:
    """What was done and found so far."""
    return (
        f"{outcome.actions} actions, {outcome.faults.total()} faults, "
        f"{outcome.checks.total():,} checks, {len(outcome.broken)} broken"
    )


def closing(outcome: Outcome, minutes: float, seed: int) -> str:
    """The last lines of a run."""
    checks = ", ".join(f"{name} {number:,}" for name, number in sorted(outcome.checks.items()))
    quiet = "never" if outcome.quiet_seconds is None else f"after {outcome.quiet_seconds:.0f} s"
    return (
        f"{by_kind(outcome.faults)}\nchecks: {checks}\n"
        f"seed {seed}: {minutes:g} minutes, {counts(outcome)}, {outcome.launched} instances launched, quiet {quiet}"
    )
