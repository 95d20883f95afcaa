"""The command line: defaults, clear refusals with status 2, and commands that repeat a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation.runner.options import Options, parse, repeat_command
from simulation.settings import QUIET_SECONDS


def test_without_arguments_one_mixed_run_of_five_minutes() -> None:
    assert parse([]) == Options(1, 1, "mixed", 1, 5.0)


def test_all_arguments() -> None:
    text = "--seeds 1 --first-seed 9 --scenario redis --jobs 2 --minutes 3 --shrink --trace t --keep 4,2,4"
    expected = Options(1, 9, "redis", 2, 3.0, shrink=True, trace=Path("t"), keep=(2, 4))
    assert parse(text.split()) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--seeds 0", "0 is not 1 or more"),
        ("--seeds many", "invalid"),
        ("--minutes -1", "not between"),
        ("--minutes nan", "not between"),
        ("--scenario sunny", "invalid choice"),
        ("--keep 1,x", "invalid"),
        ("--seeds 2 --trace x", "use --seeds 1"),
        ("--seeds 2 --debug", "use --seeds 1"),
        ("--shrink --debug", "either"),
        ("--jobs 0", "not 1 or more"),
        ("surplus", "unrecognized"),
    ],
)
def test_wrong_arguments_end_with_status_2(
    text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(text.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("keep", [None, (1, 2, 30)])
@pytest.mark.parametrize("minutes", [5.0, 2.5])
@pytest.mark.parametrize("quiet", [QUIET_SECONDS, 60.0])
def test_the_command_that_repeats_a_run_can_be_read_back(
    minutes: float, quiet: float, keep: tuple[int, ...] | None
) -> None:
    command = repeat_command(17, "redis", minutes, keep, quiet)
    program, arguments = command.split()[:3], command.split()[3:]
    assert program == ["python", "-m", "simulation"]
    assert parse(arguments) == Options(1, 17, "redis", 1, minutes, keep=keep, quiet_seconds=quiet)
