"""A real local stack: readiness, restart after a crash, stop.

Only redis, the emulator and the cluster run here; the end-to-end tests run the services too.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local import redis_server
from local.probe import probe, request_json
from local.process import identify
from local.stack import DEFAULT_DIRECTORY, Stack, StackFailed, StackSettings
from local.stack_state import StackState, read_environment
from shared.errors import ConfigurationError, Unreachable

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path / "stack")
    yield stack
    stack.stop()


def surroundings(stack: Stack) -> StackSettings:
    return StackSettings(directory=stack.directory, services=())


def test_a_directory_that_is_a_loop_of_links_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigurationError, match=r"cannot read .*loop/state.json: Too many levels"):
        Stack(tmp_path / "loop").state()


def test_without_redis_nothing_is_started_or_written(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(redis_server, "wheel_redis_server", lambda: None)
    with pytest.raises(ConfigurationError, match="install one"):
        stack.start(surroundings(stack), detach=True)
    assert not stack.directory.exists()


def wait_until(reached: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "not reached in time"
        time.sleep(0.05)


def assert_all_ended(state: StackState) -> None:
    assert [process for process in state.identities() if process.alive()] == []


@pytest.mark.slow
def test_a_stack_from_up_to_down(stack: Stack) -> None:
    """All its parts come up, once per directory; one that is killed comes back; none is left. One story: each stack
    costs four seconds to start.
    """
    heard: list[str] = []
    state = stack.start(surroundings(stack), detach=True, progress=heard.append)
    environment = read_environment(stack.environment_file)
    assert {part.name for part in state.parts} == {"redis", "aws", "cluster"}
    assert "waiting for cluster" in heard
    assert environment == state.environment
    assert Path(environment["KUBECONFIG"]).is_file()
    assert probe(environment["REDIS_URL"]) is None
    assert request_json(f"{environment['AWS_ENDPOINT_URL']}/_dovetail/instances") is not None

    with pytest.raises(ConfigurationError, match="dovetail down"):
        Stack(stack.directory).start(surroundings(stack), detach=True)
    assert state.supervisor.alive()

    killed = state.part("redis").process
    killed.send(signal.SIGKILL)
    wait_until(lambda: any(p.name == "redis" and p.restarts == 1 for p in stack.running().parts))
    wait_until(lambda: probe(environment["REDIS_URL"]) is None)
    state = stack.running()
    assert state.part("redis").process != killed

    assert sorted(stack.stop()) == ["aws", "cluster", "redis"]
    assert_all_ended(state)
    assert not stack.environment_file.exists()
    assert stack.stop() == []


@pytest.mark.slow
def test_a_killed_supervisor_leaves_nothing_behind(stack: Stack) -> None:
    state = stack.start(surroundings(stack), detach=True)
    os.kill(state.supervisor.pid, signal.SIGKILL)
    if sys.platform.startswith("linux"):
        wait_until(lambda: not any(part.process.alive() for part in state.parts))
    stack.stop()
    assert_all_ended(state)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux's")
def test_an_attached_stack_dies_with_its_caller(stack: Stack) -> None:
    script = (
        "import sys, time; from pathlib import Path; from local.stack import Stack, StackSettings; "
        "s = Stack(Path(sys.argv[1])); "
        "s.start(StackSettings(directory=s.directory, services=()), detach=False); "
        "print('ready', flush=True); time.sleep(100)"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", script, str(stack.directory)], stdout=subprocess.PIPE, cwd=PROJECT
    )
    assert caller.stdout is not None
    assert caller.stdout.readline() == b"ready\n"
    state = stack.running()
    caller.kill()
    caller.communicate()
    wait_until(lambda: not any(process.alive() for process in state.identities()))


@pytest.mark.slow
def test_a_part_that_cannot_start_is_named_with_its_log_and_a_fix(stack: Stack) -> None:
    settings = StackSettings(directory=stack.directory, services=("nowhere",))
    with pytest.raises(StackFailed, match=r"(?s)nowhere ended.*No module named.*fix:"):
        stack.start(settings, detach=True)
    assert stack.state() is None


def test_commands_for_a_stack_that_does_not_run_name_the_start_command(stack: Stack) -> None:
    with pytest.raises(ConfigurationError, match="dovetail up --detach"):
        stack.running()


def test_a_directory_with_somebody_else_s_files_is_left_alone(tmp_path: Path) -> None:
    """``dovetail up --directory .`` must not delete logs that it did not write."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "app.log").write_text("precious")
    stack = Stack(tmp_path)
    with pytest.raises(ConfigurationError, match=r"has files that no stack wrote \(logs\)"):
        stack.start(surroundings(stack), detach=True)
    assert (tmp_path / "logs" / "app.log").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs"]


def test_a_command_for_a_stack_names_its_directory_unless_it_is_the_usual_one(
    tmp_path: Path,
) -> None:
    assert Stack(DEFAULT_DIRECTORY).command("down") == "dovetail down"
    elsewhere = tmp_path / "a folder"
    assert Stack(elsewhere).command("down") == f"dovetail down --directory '{elsewhere}'"


def test_a_dead_pid_has_no_identity() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    assert identify(child.pid) is None


def test_an_address_without_a_server_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        request_json("http://127.0.0.1:9/nothing", timeout=1)
