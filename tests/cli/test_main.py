"""What the program answers before any command runs: help, version, completion, and words mistyped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import COMMANDS

HEAVY = (
    "kubernetes_asyncio",
    "aiobotocore",
    "numpy",
    "pydantic",
    "cli.manifests.simulate",
    "cli.stack.up",
)
"""What no list of commands needs: each costs a noticeable part of a second."""


def run(*words: str, code: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, in a wide terminal."""
    script = "import sys; from cli.main import app\ntry: app()\nfinally:\n    " + (code or "pass")
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        env={"PATH": os.environ["PATH"], "COLUMNS": "200", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


IMPORTED = f"print('imported:', [name for name in {HEAVY} if name in sys.modules])"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_help_lists_every_command_and_imports_none(option: str) -> None:
    done = run(option, code=IMPORTED)
    assert done.returncode == 0
    assert [name for name in COMMANDS if f"  {name} " not in done.stdout] == []
    assert "imported: []" in done.stdout


CLIENTS = ("kubernetes_asyncio", "aiobotocore", "botocore", "redis", "structlog", "asyncio", "ssl")
"""What commands on files do without. Each costs a tenth of a second or more, and brings others along."""
OTHER_KINDS = tuple(
    f"shared.api.{name}"
    for name in ("schema.catalogue", "schema.v1alpha5.provisioner", "schema.v1.node_overlay",
                 "schema.launch_record", "conversion.v1beta1", "hardware.instance_types")
)  # fmt: skip
"""Kinds that are not in the file."""
POOL = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        ("validate", (*CLIENTS, *OTHER_KINDS, "numpy", "highspy", "shared.solver.solve")),
        ("simulate", (*CLIENTS, *OTHER_KINDS, "numpy.ma", "email.parser", "rich")),
    ],
)
def test_a_command_on_a_file_imports_no_more_than_it_needs(
    tmp_path: Path, command: str, unneeded: tuple[str, ...]
) -> None:
    """Told by names: a time would say something else on every machine."""
    file = tmp_path / "pool.yaml"
    file.write_text(POOL)
    told = f"print('imported:', [name for name in {unneeded} if name in sys.modules])"
    done = run(command, "-f", str(file), code=told)
    assert "spec" in done.stdout + done.stderr
    assert "imported: []" in done.stdout


SHORT_HELP_OF_EACH = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from cli.main import COMMANDS, app
found = {}
for command in COMMANDS:
    sys.argv = ["dovetail", command, "-h"]
    printed, complained, code = io.StringIO(), io.StringIO(), None
    with redirect_stdout(printed), redirect_stderr(complained):
        try:
            app()
        except SystemExit as end:
            code = end.code
    found[command] = (code, complained.getvalue(), printed.getvalue())
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def short_help() -> dict[str, tuple[int, str, str]]:
    """Exit code, stderr and stdout of `-h` of every command; one process, for each would import the clients again."""
    done = subprocess.run(
        [sys.executable, "-c", SHORT_HELP_OF_EACH],
        env={"PATH": os.environ["PATH"], "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: dict[str, tuple[int, str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_every_command_has_a_short_help_option(
    short_help: dict[str, tuple[int, str, str]],
) -> None:
    assert short_help.keys() == COMMANDS.keys()
    for command, (code, complained, printed) in short_help.items():
        assert (code, complained) == (0, ""), command
        assert "Examples:" in printed or "Commands:" in printed, command


def test_completion_offers_commands() -> None:
    """By the installed program, whose name is that of the variable."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dovetail"))],
        env={"_DOVETAIL_COMPLETE": "complete_bash", "COMP_WORDS": "dovetail d", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["demo", "down", "decisions", "doctor", "dead-letters", "drill"]


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout.startswith("dovetail 0.")


def test_a_mistyped_command_is_told_its_neighbour() -> None:
    done = run("validat")
    assert done.returncode == 2
    assert "No such command 'validat'. Did you mean 'validate'?" in done.stderr


def test_logs_prints_the_last_lines_of_one_part(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "watcher.log").write_text("one\ntwo\nthree\n")
    done = run("logs", "watcher", "--tail", "2", "--directory", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "two\nthree\n")


def test_logs_of_an_unknown_part_names_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "watcher.log").touch()
    done = run("logs", "wather", "--directory", str(tmp_path))
    assert done.returncode == 1
    assert "there is no part 'wather'; the parts are watcher" in done.stderr


@pytest.mark.slow
def test_logs_without_a_stack_says_how_to_start_one(tmp_path: Path) -> None:
    done = run("logs", "watcher", "--directory", str(tmp_path))
    assert done.returncode == 1
    assert "dovetail up --detach" in done.stderr


def test_logs_follows_what_comes(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "watcher.log"
    log.write_text("before\n")
    words = [
        sys.executable,
        "-m",
        "cli.main",
        "logs",
        "watcher",
        "-f",
        "--directory",
        str(tmp_path),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        try:
            assert following.stdout.readline() == "before\n"
            with log.open("a") as end:
                end.write("after\n")
            assert following.stdout.readline() == "after\n"
        finally:
            following.terminate()


@pytest.mark.parametrize(
    "words", [("top", "--once"), ("status", "--watch"), ("validate", "-f", "-")]
)
def test_a_closed_standard_output_is_no_defect(words: tuple[str, ...], tmp_path: Path) -> None:
    """As with ``>&-`` in a shell: Python has None there, which libraries do not expect."""
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "cli.main", *words],
        env={"PATH": os.environ["PATH"], "DOVETAIL_DIRECTORY": str(tmp_path), "PYTHONPATH": "."},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "dovetail: " in done.stderr
