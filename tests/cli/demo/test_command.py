"""``dovetail demo``: what it checks before the stack starts, and what it says at the end."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cli.demo import cluster_autoscaler
from cli.demo.command import (
    _announce,
    _play_and_print,
    _print_how_to_stop,
    _print_progress,
    _require_folder_of,
    _settings_for,
    demo,
    failure_line,
)
from cli.demo.report import Report
from cli.demo.scenarios import SCENARIOS
from cli.demo.settings import DemoSettings
from cli.demo.stage import Check
from local.process import ProcessIdentity, start_stamp
from local.stack import Stack
from local.stack_state import READY, StackState, write_state
from shared.errors import ConfigurationError
from tests.support.cluster.fixture import write_kubeconfig

SCENARIO = SCENARIOS["consolidate"]
NOWHERE = "http://127.0.0.1:9"
OUTCOME = Report(
    scenario=SCENARIO.name, failure="", seconds=1.0, pods=(4, 4, 0), nodes=(), launched=0, terminated=0,
    timeline=(), phases=(), settings=(), checks=(Check("nodes", True, "2"), Check("cost", False, "$3")),
    comparison=cluster_autoscaler.estimate(4, 250, 2**28),
)  # fmt: skip


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=60)


def text(console: Console) -> str:
    """What was printed."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_report_needs_a_folder_before_anything_starts(tmp_path: Path) -> None:
    _require_folder_of(None)
    _require_folder_of(tmp_path / "report.json")
    with pytest.raises(ConfigurationError, match="/none is not a directory"):
        _require_folder_of(tmp_path / "none" / "report.json")


def test_the_options_and_the_scenario_make_the_settings() -> None:
    settings = _settings_for(SCENARIO, 2.5, 7)
    assert settings == DemoSettings(
        boot_seconds=2.5, ttl_seconds_after_empty=7, batch_max_seconds=SCENARIO.batch_max_seconds
    )


def test_the_scenario_is_announced_with_its_settings(console: Console) -> None:
    _announce(SCENARIO, DemoSettings(boot_seconds=2.5), console)
    _print_progress(console, "starting redis")
    lines = text(console).splitlines()
    assert lines[0] == f"{SCENARIO.name}: {SCENARIO.summary}"
    assert any("BOOT_SECONDS" in line and "2.5" in line for line in lines)
    assert lines[-1] == "stack: starting redis"


def test_a_stack_that_is_kept_is_told_with_the_command_that_stops_it(
    console: Console, tmp_path: Path
) -> None:
    _print_how_to_stop(Stack(tmp_path), console)
    assert text(console).splitlines() == [
        f"The stack is still running: source {tmp_path}/env",
        f"Stop it with: dovetail down --directory {tmp_path}",
    ]


def test_the_reason_of_a_failure_is_told_else_the_checks_that_failed() -> None:
    assert failure_line(OUTCOME) == "consolidate failed: cost: $3"
    late = replace(OUTCOME, failure="no node after 180 s")
    assert failure_line(late) == "consolidate failed: no node after 180 s"


@pytest.mark.parametrize("keep", [False, True])
def test_a_stack_that_does_not_start_leaves_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keep: bool
) -> None:
    """The directory has a file that no stack wrote: nothing is started, and nothing is said about stopping."""
    (tmp_path / "env").write_text("mine")
    with pytest.raises(ConfigurationError, match="files that no stack wrote"):
        demo(directory=tmp_path, report=tmp_path / "r.json", keep=keep)
    told = capsys.readouterr().out
    assert "Settings of this demo" in told
    assert "Stop it with" not in told
    assert not (tmp_path / "r.json").exists()


@pytest.mark.slow
async def test_a_failed_scenario_is_explained_on_stderr(
    tmp_path: Path, console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stack's state names addresses where nobody answers."""
    environment = {
        "KUBECONFIG": str(write_kubeconfig(tmp_path / "kubeconfig", NOWHERE)),
        "REDIS_URL": "redis://127.0.0.1:9/0",
        "AWS_ENDPOINT_URL": NOWHERE,
        "CLUSTER_NAME": "dovetail-local",
        "DOVETAIL_WATCHER_URL": NOWHERE,
    }
    us = ProcessIdentity(os.getpid(), start_stamp(os.getpid()) or "")
    stack = Stack(tmp_path)
    write_state(stack.state_file, StackState(us, READY, environment=environment))
    outcome = await _play_and_print(stack, SCENARIO, DemoSettings(), console)
    assert not outcome.ok
    assert "0 of 0 pods" in text(console)
    told = capsys.readouterr().err
    assert told.startswith("consolidate failed: ")
    assert "  watcher is not ready: " in told
