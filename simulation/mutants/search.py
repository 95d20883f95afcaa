"""Runs seeds with each mutant until an invariant breaks.

Every run has a process of its own, which puts the mutant into its copy of the code. A run that fails in the same way
without the mutant proves nothing: it is repeated without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from simulation.mutants.findings import Finding, Setting
from simulation.mutants.loaded_code import LoadedCode
from simulation.mutants.mutant import Mutant
from simulation.mutants.reach import Reach
from simulation.run import Outcome
from simulation.runner.children import Died, run_all
from simulation.runner.report import failed, invariant_of
from simulation.runner.seeds import SeedTask, run_seed

CPU_SECONDS = 60.0
"""The bound on one run: ten times of what a sound one needs."""


@dataclass(slots=True)
class Search:
    """Searches one mutant after the other."""

    setting: Setting
    jobs: int = 1
    _code: LoadedCode = field(default_factory=LoadedCode)
    _sound: dict[SeedTask, str] = field(default_factory=dict)
    """Run -> the invariant that breaks without any mutant, usually none."""

    def find(self, mutant: Mutant, done: int = 0) -> Finding:
        """Run seeds with the mutant until one fails that does not fail without it. ``done``: seeds that did not. Raises
        ValueError for a mutant that would change nothing.
        """
        self._code.require(mutant)
        with closing(self._run(self._tasks_of(mutant, done), mutant)) as results:
            for task, outcome in results:
                if failed(outcome) and self._sound_invariant(task) != invariant_of(outcome):
                    return Finding(mutant.name, task.seed, invariant_of(outcome), task.scenario)
        return Finding(mutant.name, max(done, self.setting.seeds))

    def reach(self, mutants: Sequence[Mutant], scenarios: Sequence[str]) -> dict[str, Counter[str]]:
        """Scenario -> how often the code of each mutant runs in its seeds, without any mutant."""

        def work(task: SeedTask) -> Counter[str]:
            reach = Reach()
            reach.watch(self._code, mutants)
            run_seed(task)
            return reach.counts

        setting = self.setting
        tasks = [
            SeedTask(seed, scenario, setting.minutes, quiet_seconds=setting.quiet_seconds)
            for scenario in scenarios
            for seed in range(1, self.setting.seeds + 1)
        ]
        found: dict[str, Counter[str]] = {scenario: Counter() for scenario in scenarios}
        for task, counts in run_all(work, tasks, self.jobs, CPU_SECONDS):
            if isinstance(counts, Died):
                raise RuntimeError(counts.reason)
            found[task.scenario] += counts
        return found

    def _tasks_of(self, mutant: Mutant, done: int) -> list[SeedTask]:
        """One run for each seed."""
        minutes = mutant.minutes or self.setting.minutes
        quiet_seconds = mutant.quiet_seconds or self.setting.quiet_seconds
        return [
            SeedTask(seed, mutant.scenario, minutes, quiet_seconds=quiet_seconds)
            for seed in range(done + 1, self.setting.seeds + 1)
        ]

    def _sound_invariant(self, task: SeedTask) -> str:
        if task not in self._sound:
            with closing(self._run([task], None)) as results:
                self._sound[task] = next(invariant_of(outcome) for _, outcome in results)
        return self._sound[task]

    def _run(
        self, tasks: Sequence[SeedTask], mutant: Mutant | None
    ) -> Generator[tuple[SeedTask, Outcome | Died], None, None]:
        def work(task: SeedTask) -> Outcome:
            if mutant is not None:
                self._code.apply(mutant)
            return run_seed(task)

        return run_all(work, tasks, self.jobs, CPU_SECONDS)
