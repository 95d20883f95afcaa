"""Runs seeds with each mutant until an invariant breaks.

Every run has a process of its own, which puts the mutant into its copy of the code. A run that fails in the same way
without the mutant proves nothing: it is repeated without.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from simulation.mutants.findings import Finding, Setting
from simulation.mutants.loaded_code import LoadedCode
from simulation.mutants.mutant import Mutant
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
    _sound: dict[tuple[str, int], str] = field(default_factory=dict)
    """Scenario and seed -> the invariant that breaks without any mutant, usually none."""

    def find(self, mutant: Mutant) -> Finding:
        """Run seeds with the mutant until one fails that does not fail without it."""
        tasks = self._tasks_of(mutant)
        with closing(self._run(tasks, mutant)) as results:
            for runs, (task, outcome) in enumerate(results, 1):
                if failed(outcome) and self._sound_invariant(task) != invariant_of(outcome):
                    return Finding(
                        mutant.name, runs, invariant_of(outcome), task.scenario, task.seed
                    )
        return Finding(mutant.name, len(tasks))

    def _tasks_of(self, mutant: Mutant) -> list[SeedTask]:
        """The first seed of each scenario in order, then the second of each, and so on."""
        return [
            self._task(scenario, seed)
            for seed in range(1, self.setting.seeds + 1)
            for scenario in self.setting.scenarios_of(mutant)
        ]

    def _task(self, scenario: str, seed: int) -> SeedTask:
        """One run."""
        return SeedTask(
            seed, scenario, self.setting.minutes, quiet_seconds=self.setting.quiet_seconds
        )

    def _sound_invariant(self, task: SeedTask) -> str:
        key = task.scenario, task.seed
        if key not in self._sound:
            with closing(self._run([task], None)) as results:
                self._sound[key] = next(invariant_of(outcome) for _, outcome in results)
        return self._sound[key]

    def _run(
        self, tasks: Sequence[SeedTask], mutant: Mutant | None
    ) -> Generator[tuple[SeedTask, Outcome | Died], None, None]:
        def work(task: SeedTask) -> Outcome:
            if mutant is not None:
                self._code.apply(mutant)
            return run_seed(task)

        return run_all(work, tasks, self.jobs, CPU_SECONDS)
