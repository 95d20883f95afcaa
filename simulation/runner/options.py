"""The command line of ``python -m simulation``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simulation.faults import DEFAULT, SCENARIOS
from simulation.settings import QUIET_SECONDS

MINUTES = 5.0
LONGEST_MINUTES = 1_440.0


@dataclass(frozen=True)
class Options:
    """What to run. ``keep`` has the entries of the plan that happen; None: all."""

    seeds: int = 1
    first_seed: int = 1
    scenario: str = DEFAULT
    jobs: int = 1
    minutes: float = MINUTES
    shrink: bool = False
    trace: Path | None = None
    debug: bool = False
    keep: tuple[int, ...] | None = None
    stop: bool = False
    failures: Path | None = None
    corpus: bool = False
    quiet_seconds: float = QUIET_SECONDS
    records: Path | None = None


def parse(arguments: Sequence[str]) -> Options:
    """Exits with status 2 and a message for arguments that are not valid."""
    parser = _parser()
    found = Options(**vars(parser.parse_args(arguments)))
    one = found.trace or found.records or found.debug or found.keep is not None
    if found.seeds > 1 and one:
        parser.error("--trace, --records, --debug and --keep are for one seed: use --seeds 1")
    if found.shrink and found.debug:
        parser.error("use either --shrink or --debug")
    return found


def repeat_command(
    seed: int, scenario: str, minutes: float, keep: Sequence[int] | None, quiet_seconds: float
) -> str:
    """The command that runs a seed again. Times that are the defaults are left out."""
    kept = "" if keep is None else f" --keep {','.join(map(str, keep))}"
    times = "" if minutes == MINUTES else f" --minutes {minutes:g}"
    times += "" if quiet_seconds == QUIET_SECONDS else f" --quiet-seconds {quiet_seconds:g}"
    return f"python -m simulation --first-seed {seed} --scenario {scenario}{times}{kept}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulation",
        description="Runs the five services against a simulated cluster, AWS and Redis in virtual time.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_scenarios(),
    )
    add = parser.add_argument
    add("--seeds", type=_positive, default=1, help="number of runs (default 1)")
    add("--first-seed", type=int, default=1, help="seed of the first run (default 1)")
    add("--scenario", choices=sorted(SCENARIOS), default=DEFAULT, metavar="NAME", help="see below")
    add("--jobs", type=_positive, default=1, help="processes at a time (default 1)")
    add(
        "--minutes", type=_minutes, default=MINUTES, help="simulated minutes with users (default 5)"
    )
    add("--shrink", action="store_true", help="reduce the first failing run to what it needs")
    add("--trace", type=Path, metavar="FILE", help="write every event of one seed as JSON lines")
    add("--records", type=Path, metavar="DIR", help="record the decisions of one seed's schedulers")
    add("--debug", action="store_true", help="start pdb where the invariant of one seed is broken")
    add(
        "--keep",
        type=_numbers,
        metavar="N,N",
        help="only these entries of the plan, as --shrink prints",
    )
    add("--stop", action="store_true", help="end at the first failing seed")
    add("--failures", type=Path, metavar="FILE", help="write failing seeds as JSON lines")
    add("--corpus", action="store_true", help="run the seeds of simulation/corpus.txt")
    quiet = "longest simulated time after the last fault until all must be well (default 1200)"
    add("--quiet-seconds", type=float, default=QUIET_SECONDS, metavar="N", help=quiet)
    return parser


def _scenarios() -> str:
    longest = max(map(len, SCENARIOS))
    rows = [f"  {one.name:<{longest}}  {one.text}" for one in SCENARIOS.values()]
    return "\n".join(["scenarios:", *rows])


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _minutes(text: str) -> float:
    number = float(text)
    if not 0 < number <= LONGEST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {LONGEST_MINUTES:g}")
    return number


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(part) for part in text.split(",") if part}))
