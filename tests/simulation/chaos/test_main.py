"""The command: clear refusals, lines for people; at night a whole run, whose status says whether a promise broke."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from local.stack import START_SECONDS
from simulation.chaos.__main__ import main
from simulation.chaos.display import closing
from simulation.chaos.promises import Broken
from simulation.chaos.run import Outcome
from simulation.mutants.catalogue import MUTANTS
from simulation.mutants.loaded_code import PROJECT
from simulation.mutants.mutant import Mutant
from tests.support.waiting import wait_until

INTERRUPTED = 130
STOPPED_SECONDS = 60.0
PROCESSES = 9
"""The supervisor, five services, Redis, the emulator and the cluster."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--minutes 1", "1 is not over 1"),
        ("--minutes nan", "nan is not over 1"),
        ("--minutes many", "invalid"),
        ("--quiet-minutes 0", "0 is not over 0"),
        ("--seed x", "invalid int"),
        ("surplus", "unrecognized"),
    ],
)
def test_wrong_arguments_end_with_status_2(
    text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(text.split())
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_closing_lines_have_faults_checks_and_what_broke() -> None:
    outcome = Outcome(
        actions=7,
        faults=Counter({"cut": 2, "kill": 1}),
        checks=Counter({"every process is ready": 1_200}),
        launched=4,
        broken=[Broken("every process is ready", "launcher-0 is not ready", 300.0)],
    )
    assert closing(outcome, 5, 3).splitlines() == [
        "faults: cut 2, kill 1",
        "checks: every process is ready 1,200",
        "seed 3: 5 minutes, 7 actions, 3 faults, 1,200 checks, 1 broken, 4 instances launched, quiet never",
    ]


# Whole runs


@contextmanager
def chaos(
    directory: Path, *arguments: str, tree: Path = PROJECT
) -> Iterator[subprocess.Popen[str]]:
    """A run of the code in ``tree`` whose files are in ``directory``."""
    command = [sys.executable, "-m", "simulation.chaos", *arguments]
    with subprocess.Popen(
        command,
        cwd=tree,
        env=os.environ | {"TMPDIR": str(directory), "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def stack_of(process: subprocess.Popen[str], number: int) -> list[psutil.Process]:
    """The processes of the run's stack, once there are so many."""
    run = psutil.Process(process.pid)
    await wait_until(
        lambda: len(run.children(recursive=True)) >= number, "the stack runs", seconds=START_SECONDS
    )
    return [*run.children(recursive=True)]


def running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run."""
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.nightly
async def test_two_minutes_of_chaos_break_no_promise_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    with chaos(tmp_path, "--minutes", "2", "--seed", "5") as process:
        parts = await stack_of(process, PROCESSES)
        printed, _ = process.communicate()
        assert process.returncode == 0, printed
        found = re.search(r" 0 broken, (\d+) instances launched, quiet after ", printed)
        assert found is not None
        assert int(found[1]) > 0
        assert "kill " in printed
        assert running(parts) == []
        assert os.listdir(tmp_path) == []


def copy_tree(tree: Path, mutant: Mutant) -> None:
    """Everything that the stack's processes import or read, with the fault."""
    for name in ("services", "shared", "local", "simulation", "cli", "deploy"):
        shutil.copytree(PROJECT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", tree)
    changed = tree / mutant.file
    changed.write_text(mutant.change(changed.read_text()))


@pytest.mark.nightly
def test_a_fault_in_a_service_breaks_a_promise(tmp_path: Path) -> None:
    (mutant,) = [one for one in MUTANTS if one.name == "record-after-the-call"]
    tree, files = tmp_path / "tree", tmp_path / "files"
    tree.mkdir()
    files.mkdir()
    copy_tree(tree, mutant)
    with chaos(files, "--minutes", "2", "--quiet-minutes", "1", tree=tree) as process:
        printed, _ = process.communicate()
        assert process.returncode == 1, printed
        assert re.search(r"broken after .* s: a launch is written down before it happens", printed)
        (kept,) = files.iterdir()
        assert (kept / "logs" / "launcher.log").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("parts", [1, PROCESSES], ids=["while it starts", "while it runs"])
async def test_an_interrupted_run_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, parts: int
) -> None:
    with chaos(tmp_path, "--minutes", "2") as process:
        stack = await stack_of(process, parts)
        process.send_signal(number)
        printed, _ = process.communicate(timeout=STOPPED_SECONDS)
        assert process.returncode == INTERRUPTED, printed
        assert printed.splitlines()[-1] == "interrupted; the stack is stopped"
        assert "Traceback" not in printed
        assert running(stack) == []
        assert os.listdir(tmp_path) == []


@pytest.mark.nightly
async def test_a_killed_run_leaves_no_process_behind(tmp_path: Path) -> None:
    with chaos(tmp_path, "--minutes", "2") as process:
        stack = await stack_of(process, PROCESSES)
        process.kill()
        await wait_until(lambda: running(stack) == [], "every process has ended")
