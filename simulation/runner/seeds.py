"""One seed in one process, with all of its plan or a part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from simulation.faults import SCENARIOS, Fault
from simulation.plan import Plan, plan_of
from simulation.run import OnBroken, Outcome, simulate
from simulation.settings import QUIET_SECONDS, RunSettings
from simulation.users import Action

CPU_SECONDS = 60.0
CPU_SECONDS_PER_MINUTE = 30.0
"""Many times of what a run needs: 5 simulated minutes and the quiet end take a few seconds."""


@dataclass(frozen=True)
class SeedTask:
    """``keep``: indices into the plan, actions first, then faults; None: all of it."""

    seed: int
    scenario: str
    minutes: float
    keep: tuple[int, ...] | None = None
    trace: Path | None = None
    quiet_seconds: float = QUIET_SECONDS
    records: Path | None = None

    @property
    def settings(self) -> RunSettings:
        """The settings of the run."""
        scenario = SCENARIOS[self.scenario]
        return RunSettings(
            self.seed,
            self.minutes,
            self.scenario,
            scenario.replicas,
            quiet_seconds=self.quiet_seconds,
            records=str(self.records.resolve()) if self.records else "",
            variables=scenario.variables,
        )

    @property
    def cpu_seconds(self) -> float:
        """The bound on the CPU time of the run."""
        return CPU_SECONDS + CPU_SECONDS_PER_MINUTE * self.minutes

    def plan(self) -> Plan:
        """What users do and what fails."""
        return kept(plan_of(self.settings), self.keep)


def run_seed(task: SeedTask, on_broken: OnBroken | None = None) -> Outcome:
    """One run in this process, which must not be used for another one."""
    with ExitStack() as stack:
        write: Callable[[bytes], object] | None = None
        if task.trace is not None:
            write = stack.enter_context(task.trace.open("wb")).write
        return simulate(task.settings, task.plan(), write, on_broken)


def kept(plan: Plan, keep: Iterable[int] | None) -> Plan:
    """The plan with only the entries of these indices. Raises ValueError for an index that it does not have."""
    if keep is None:
        return plan
    numbers = sorted(set(keep))
    if numbers and not 0 <= numbers[0] <= numbers[-1] < len(plan):
        raise ValueError(f"the plan has the entries 0 to {len(plan) - 1}")
    border = len(plan.actions)
    return Plan(
        tuple(plan.actions[number] for number in numbers if number < border),
        tuple(plan.faults[number - border] for number in numbers if number >= border),
    )


def entries(plan: Plan) -> list[tuple[float, str]]:
    """(second, text) of every entry, by index."""
    whole: Sequence[Action | Fault] = (*plan.actions, *plan.faults)
    return [(one.at_seconds, one.text) for one in whole]
