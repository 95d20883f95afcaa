"""``python -m simulation.chaos``: users and faults against a stack of real processes."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from rich.console import Console

from shared.concurrency.tasks import TaskGroup
from shared.errors import DovetailError
from shared.log import configure
from shared.runtime.ending import INTERRUPTED
from simulation.chaos.display import Display, closing
from simulation.chaos.run import Chaos, Limits, Outcome
from simulation.chaos.stack import running
from simulation.faults.plan import CALM_SECONDS

DRAW_SECONDS = 0.5
LONGEST_MINUTES = 24 * 60.0


async def play(directory: Path, limits: Limits, seed: int, display: Display) -> Outcome:
    """One run with its stack in ``directory``. Raises DovetailError when the stack does not start."""
    async with running(directory, Random()) as world:
        chaos = Chaos(world, display.say, lambda name: directory / "logs" / f"{name}.log")

        async def draw() -> None:
            while True:
                display.show(chaos.outcome, world.elapsed, limits.minutes * 60)
                await asyncio.sleep(DRAW_SECONDS)

        async with TaskGroup() as group:
            drawing = group.create_task(draw())
            outcome = await chaos.run(limits, seed)
            drawing.cancel()
        return outcome


async def _until_signal(directory: Path, limits: Limits, seed: int, display: Display) -> Outcome:
    """The same; SIGINT and SIGTERM cancel it, and the stack is stopped before this returns."""
    if task := asyncio.current_task():
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await play(directory, limits, seed, display)


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 when a promise broke, 2 when the stack did not start, 130 when interrupted."""
    options = _options(arguments)
    configure("critical")
    limits = Limits(options.minutes, options.quiet_minutes)
    directory = Path(tempfile.mkdtemp(prefix="dovetail-chaos-"))
    status = INTERRUPTED
    with Display(Console()) as display:
        try:
            outcome = asyncio.run(_until_signal(directory, limits, options.seed, display))
            status = int(bool(outcome.broken))
            display.say(closing(outcome, options.minutes, options.seed))
        except asyncio.CancelledError:
            display.say("interrupted; the stack is stopped")
        except DovetailError as error:
            display.say(f"error: {error.message}")
            status = 2
        if status == 1:
            display.say(f"logs of the services: {directory / 'logs'}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return status


def _minutes(text: str) -> float:
    return _between(text, CALM_SECONDS / 60)


def _quiet_minutes(text: str) -> float:
    return _between(text, 0)


def _between(text: str, least: float) -> float:
    number = float(text)
    if not least < number <= LONGEST_MINUTES:
        raise argparse.ArgumentTypeError(
            f"{text} is not over {least:g} and at most {LONGEST_MINUTES:g}"
        )
    return number


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation.chaos", description=__doc__)
    parser.add_argument(
        "--minutes",
        type=_minutes,
        default=30.0,
        help="of users and faults; nothing is done in the last one (default: 30)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="chooses what users do and what fails (default: 1)"
    )
    parser.add_argument(
        "--quiet-minutes",
        type=_quiet_minutes,
        default=20.0,
        help="in which everything must become right afterwards (default: 20)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
