"""The command line as people meet it: help, lists, and errors without tracebacks."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.demo.scenarios import SCENARIOS


def dovetail(*words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "200", "DOVETAIL_DIRECTORY": str(directory)},
        cwd=Path(__file__).resolve().parents[2],
    )


def test_list_names_every_scenario(tmp_path: Path) -> None:
    done = dovetail("demo", "--list", directory=tmp_path)
    assert done.returncode == 0
    assert [name for name in SCENARIOS if name not in done.stdout] == []


@pytest.mark.parametrize("command", ["demo", "up", "down", "status", "halt", "resume", "drill"])
def test_help_of_every_command_has_examples(command: str, tmp_path: Path) -> None:
    done = dovetail(command, "--help", directory=tmp_path)
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    assert f"dovetail {command}" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["demo", "--scenario", "burst-9000"], "there are: burst-400"),
        (["demo", "--report", "/nowhere/at/all/r.json"], "is no directory"),
        (["status"], "dovetail up --detach"),
        (["explain", "node", "n1"], "dovetail up --detach"),
        (["halt"], "dovetail up --detach"),
        (["drill"], "dovetail up --detach"),
        (["interruption", "check"], "give --queue"),
        (["resume", "--pool", "default"], "must be KIND/NAME"),
    ],
)
def test_a_mistake_ends_with_one_message_and_code_1(
    words: list[str], told: str, tmp_path: Path
) -> None:
    done = dovetail(*words, directory=tmp_path)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_down_without_a_stack_says_so_and_succeeds(tmp_path: Path) -> None:
    done = dovetail("down", directory=tmp_path / "none")
    assert (done.returncode, done.stdout.strip()) == (0, "nothing was running")
