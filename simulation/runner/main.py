"""Runs what the command line asks for and returns the exit status: 1 when an invariant broke, else 0."""

from __future__ import annotations

import pdb
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from math import inf

import orjson
from rich.console import Console

from simulation.run import Outcome
from simulation.runner.children import Died, run_all
from simulation.runner.corpus import read_corpus
from simulation.runner.options import Options, repeat_command
from simulation.runner.report import Display, failed, invariant_of
from simulation.runner.seeds import SeedTask, entries, run_seed
from simulation.runner.shrink import Keep, shrink
from simulation.world import World


def run(options: Options) -> int:
    """The exit status."""
    if options.debug:
        return _debug(_task(options, options.first_seed))
    tasks = _tasks(options)
    if not tasks:
        return 0
    first: tuple[SeedTask, Outcome | Died] | None = None
    display = Display(Console(), len(tasks))
    longest = max(task.cpu_seconds for task in tasks)
    results = run_all(run_seed, tasks, options.jobs, longest)
    with display, closing(results):
        for task, outcome in results:
            display.show(task, outcome)
            if failed(outcome):
                first = first or (task, outcome)
                _note_failure(options, task, outcome)
            if len(tasks) == 1 and isinstance(outcome, Outcome):
                display.say(f"trace hash {outcome.digest}")
            if first is not None and options.stop:
                break
    display.close()
    if first is not None and options.shrink:
        _print_shrunk(*first, options.jobs, display)
    return 0 if first is None else 1


def _tasks(options: Options) -> list[SeedTask]:
    if options.corpus:
        return [SeedTask(*entry) for entry in read_corpus()]
    return [_task(options, options.first_seed + number) for number in range(options.seeds)]


def _task(options: Options, seed: int) -> SeedTask:
    return SeedTask(
        seed,
        options.scenario,
        options.minutes,
        options.keep,
        options.trace,
        options.quiet_seconds,
        options.records,
    )


def _note_failure(options: Options, task: SeedTask, outcome: Outcome | Died) -> None:
    if options.failures is not None:
        with options.failures.open("ab") as stream:
            row = {"seed": task.seed, "invariant": invariant_of(outcome)}
            stream.write(orjson.dumps(row) + b"\n")


def _debug(task: SeedTask) -> int:
    """Run in this process, with pdb where the invariant breaks: ``world`` is the world, ``found`` what is wrong."""
    display = Display(Console(), 1)
    display.show(task, run_seed(task, _stop_at))
    display.close()
    return int(display.totals.failed > 0)


def _stop_at(world: World, name: str, found: Sequence[str]) -> None:
    pdb.set_trace(header="\n".join([f"broken: {name}", *found]))


def _print_shrunk(task: SeedTask, outcome: Outcome | Died, jobs: int, display: Display) -> None:
    invariant = invariant_of(outcome)
    listed = entries(SeedTask(task.seed, task.scenario, task.minutes).plan())
    whole = tuple(range(len(listed))) if task.keep is None else task.keep

    def first_failing(parts: Sequence[Keep]) -> Keep | None:
        return _first_failing(task, invariant, parts, jobs)

    end = outcome.simulated_seconds if isinstance(outcome, Outcome) else inf
    early = tuple(number for number in whole if listed[number][0] <= end)
    part = shrink(first_failing([early]) or whole, first_failing)
    display.say(f"{len(part)} of {len(whole)} entries of the plan are needed:")
    for number in sorted(part, key=lambda number: listed[number][0]):
        at, text = listed[number]
        display.say(f"  {number:>5}  {at:8.3f} s  {text}")
    command = repeat_command(task.seed, task.scenario, task.minutes, part, task.quiet_seconds)
    display.say(f"  repeat: {command}")


def _first_failing(task: SeedTask, invariant: str, parts: Sequence[Keep], jobs: int) -> Keep | None:
    """The first part in order whose run breaks ``invariant``; runs that are no longer needed are ended."""
    tasks = [replace(task, keep=part, trace=None, records=None) for part in parts]
    failing: dict[Keep, bool] = {}
    for one, outcome in run_all(run_seed, tasks, jobs, task.cpu_seconds):
        assert one.keep is not None
        failing[one.keep] = invariant_of(outcome) == invariant
        for part in parts:
            if part not in failing:
                break
            if failing[part]:
                return part
    return None
