"""``python -m simulation.mutants.runs``: the runs of one mutant, in the tree that it changed, until one fails.

All runs are forked from this process, so a mutant pays once for the imports.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

import orjson

from simulation.runner.children import run_all
from simulation.runner.report import failed, invariant_of
from simulation.runner.seeds import SeedTask, run_seed


@dataclass(frozen=True, slots=True)
class Failure:
    """``runs``: how many runs there were, this one included."""

    runs: int
    seed: int
    scenario: str
    invariant: str


def tasks_of(
    scenarios: Sequence[str], seeds: range, minutes: float, quiet_seconds: float
) -> list[SeedTask]:
    """The first seed of each scenario in order, then the second of each, and so on."""
    return [
        SeedTask(seed, scenario, minutes, quiet_seconds=quiet_seconds)
        for seed in seeds
        for scenario in scenarios
    ]


def failures(tasks: Iterable[SeedTask]) -> Iterable[Failure]:
    """Each run that broke an invariant, in order."""
    listed = list(tasks)
    longest = max((one.cpu_seconds for one in listed), default=0.0)
    with closing(run_all(run_seed, listed, 1, longest)) as results:
        for number, (task, outcome) in enumerate(results, 1):
            if failed(outcome):
                yield Failure(number, task.seed, task.scenario, invariant_of(outcome))


def main(arguments: list[str]) -> int:
    """Write each failure as a line of JSON to standard output, until nobody reads it any more."""
    parser = argparse.ArgumentParser(prog="python -m simulation.mutants.runs", description=__doc__)
    parser.add_argument("scenarios", nargs="+")
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--quiet-seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    tasks = tasks_of(options.scenarios, seeds, options.minutes, options.quiet_seconds)
    for failure in failures(tasks):
        sys.stdout.buffer.write(orjson.dumps(failure) + b"\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
