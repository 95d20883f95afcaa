"""The command line as people meet it: help, lists, and errors without tracebacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.demo.scenarios import SCENARIOS
from cli.main import COMMANDS, Command, app


class Done(NamedTuple):
    """What a command leaves behind."""

    status: int
    stdout: str
    stderr: str


Dovetail = Callable[..., Done]


@pytest.fixture
def dovetail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Dovetail:
    """``dovetail("demo", "--list")`` where no stack runs and no variable tells of a cluster."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["dovetail", *words])
        with pytest.raises(SystemExit) as ended:
            app()
        told = capsys.readouterr()
        return Done(int(ended.value.code or 0), told.out, told.err)

    return run


def environment(directory: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "COLUMNS": "200", "DOVETAIL_DIRECTORY": str(directory)}


def test_list_names_every_scenario(dovetail: Dovetail) -> None:
    done = dovetail("demo", "--list")
    assert done.status == 0
    assert [name for name in SCENARIOS if name not in done.stdout] == []


@pytest.mark.parametrize(
    "command", ["demo", "up", "down", "status", "halt", "resume", "drill", "profile"]
)
def test_help_of_every_command_has_examples(command: str, dovetail: Dovetail) -> None:
    done = dovetail(command, "--help")
    assert done.status == 0
    assert "Examples:" in done.stdout
    assert f"dovetail {command}" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["demo", "--scenario", "burst-9000"], "there are: burst-400"),
        (["demo", "--report", "/nowhere/at/all/r.json"], "is not a directory"),
        (["status"], "dovetail up --detach"),
        (["explain", "node", "n1"], "dovetail up --detach"),
        (["halt"], "dovetail up --detach"),
        (["drill"], "dovetail up --detach"),
        (["interruption", "check"], "give --queue"),
        (["resume", "--pool", "default"], "must be KIND/NAME"),
        (["up", "--cluster-name", "two words"], "invalid cluster name 'two words'"),
        (["up", "--directory", __file__], "Not a directory"),
        (["down", "--directory", __file__], "Not a directory"),
        (["status", "--directory", "/nowhere"], "no stack runs in /nowhere"),
        (["halt", "--directory", "/nowhere"], "no stack runs in /nowhere"),
        (["cloud", "reset", "--directory", "/nowhere"], "no stack runs in /nowhere"),
    ],
)
def test_a_mistake_ends_with_one_message_and_code_1(
    words: list[str], told: str, dovetail: Dovetail
) -> None:
    done = dovetail(*words)
    assert done.status == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_directory_that_was_named_never_means_another_cluster(
    dovetail: Dovetail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell's variables are for those who named none: ``halt`` must not reach a cluster that nobody meant."""
    monkeypatch.setenv("KUBECONFIG", "/production")
    done = dovetail("halt", "--directory", "/nowhere")
    assert (done.status, done.stdout) == (1, "")
    assert "no stack runs in /nowhere" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_is_one_line(dovetail: Dovetail, monkeypatch: pytest.MonkeyPatch) -> None:
    with TextIOWrapper(FileIO("/dev/full", "w"), write_through=True) as full:
        monkeypatch.setattr(sys, "stdout", full)
        done = dovetail("demo", "--list")
    assert done.status == 1
    assert done.stderr.startswith("dovetail: [Errno 28]")
    assert len(done.stderr.splitlines()) == 1


def test_without_the_extra_the_package_is_named_with_the_command_that_installs_it(
    dovetail: Dovetail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``None`` among the modules is how Python marks one that cannot be imported."""
    monkeypatch.setitem(COMMANDS, "logs", Command("jsonpatch", "A command that needs it."))
    monkeypatch.setitem(sys.modules, "jsonpatch", None)
    done = dovetail("logs")
    assert done.status == 1
    assert done.stderr.startswith("dovetail: this needs the package jsonpatch")
    assert "pip install 'dovetail[local]'" in done.stderr


def test_a_module_of_our_own_that_is_missing_is_a_defect_with_its_traceback(
    dovetail: Dovetail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "logs", Command("cli.nowhere", "A command without its module."))
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        dovetail("logs")


def test_the_version_is_printed_before_any_command(dovetail: Dovetail) -> None:
    said = dovetail("--version", "logs").stdout
    assert re.fullmatch(rf"dovetail {version('dovetail')}( \(commit [0-9a-f]{{12}}\))?\n", said)


@pytest.mark.slow
def test_down_without_a_stack_says_so_and_succeeds(tmp_path: Path) -> None:
    """As a process of its own, which a shell would start."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "down"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment(tmp_path / "none"),
        cwd=Path(__file__).resolve().parents[2],
    )
    assert (done.returncode, done.stdout.strip()) == (0, "nothing was running")
