"""Signals to the processes of a stack, which its state file names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from local.process import identify
from local.stack import Stack
from local.stack_state import PartState, StackState, write_state
from simulation.chaos.processes import RealProcess
from tests.support.waiting import wait_until

WAITS = "import sys; sys.stdin.read()"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits, in a group of its own as every part is."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITS], stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def part(child: subprocess.Popen[bytes], tmp_path: Path) -> RealProcess:
    """The same as the part ``launcher`` of a stack that this process supervises; it was started three times again."""
    supervisor, process = identify(os.getpid()), identify(child.pid)
    assert supervisor is not None
    assert process is not None
    stack = Stack(tmp_path)
    write_state(stack.state_file, StackState(supervisor, parts=[PartState("launcher", process, 3)]))
    return RealProcess(stack, "launcher")


def test_a_running_part_is_alive_until_it_is_killed(
    part: RealProcess, child: subprocess.Popen[bytes]
) -> None:
    assert part.alive
    assert part.starts == 3
    part.kill()
    child.wait()
    assert not part.alive
    assert part.ordered == 1


async def test_a_stopped_part_continues_after_its_time(
    part: RealProcess, child: subprocess.Popen[bytes]
) -> None:
    watched = psutil.Process(child.pid)
    part.pause(0.2)
    await wait_until(lambda: watched.status() == psutil.STATUS_STOPPED, "it is stopped")
    await wait_until(lambda: watched.status() != psutil.STATUS_STOPPED, "it continues")


async def test_a_part_is_let_go_before_its_time(
    part: RealProcess, child: subprocess.Popen[bytes]
) -> None:
    watched = psutil.Process(child.pid)
    part.pause(600)
    await wait_until(lambda: watched.status() == psutil.STATUS_STOPPED, "it is stopped")
    part.resume()
    await wait_until(lambda: watched.status() != psutil.STATUS_STOPPED, "it continues")


async def test_a_part_that_waits_for_its_next_start_gets_no_signal(part: RealProcess) -> None:
    part.name = "watcher"
    assert not part.alive
    part.pause(0.1)
    part.terminate()
    assert part.ordered == 1


def test_a_part_that_does_not_answer_is_not_ready_and_says_nothing(tmp_path: Path) -> None:
    lonely = RealProcess(Stack(tmp_path), "launcher", "http://127.0.0.1:1")
    assert "refused" in lonely.unready()[0]
    assert lonely.status() == {}
