"""Work in a process of its own: its answer, its errors, its bounds, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import psutil
import pytest

from shared.errors import Unauthorized
from shared.runtime.child import Bounds, ChildFailed, in_child
from shared.runtime.ending import INTERRUPTED, LINE
from tests.support.processes.child_processes import working_children
from tests.support.waiting import wait_until

BOUNDS = Bounds("the work", 60.0)


def process_id(_nothing: None) -> int:
    return os.getpid()


def refuse(what: str) -> None:
    raise Unauthorized(what)


def die(_nothing: None) -> None:
    os._exit(1)


def hang(pid_file: Path) -> None:
    fresh = pid_file.with_suffix(".new")
    fresh.write_text(str(os.getpid()))
    fresh.rename(pid_file)
    threading.Event().wait()


def hoard(count: int) -> int:
    return len(bytearray(count))


async def test_the_work_is_done_elsewhere() -> None:
    assert await in_child(process_id, None, BOUNDS) != os.getpid()


async def test_what_the_work_raises_is_raised_here() -> None:
    with pytest.raises(Unauthorized, match="may not"):
        await in_child(refuse, "may not", BOUNDS)


async def test_a_child_that_dies_is_told() -> None:
    with pytest.raises(ChildFailed, match="the process of the work died"):
        await in_child(die, None, BOUNDS)


async def test_a_child_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with pytest.raises(ChildFailed, match=r"the work took longer than 0\.4 s"):
        await in_child(hang, tmp_path / "pid", Bounds("the work", 0.4))
    assert working_children() == []


async def test_memory_is_bounded() -> None:
    bounds = Bounds("the work", 60.0, memory_bytes=256 << 20)
    assert await in_child(hoard, 1 << 20, bounds) == 1 << 20
    with pytest.raises(ChildFailed, match="the work needs more than 256 MiB"):
        await in_child(hoard, 512 << 20, bounds)


async def test_a_child_that_nobody_waits_for_is_killed(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    working = asyncio.ensure_future(in_child(hang, started, BOUNDS))
    await wait_until(started.exists, "the child runs")
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    await wait_until(lambda: gone(started), "the child is gone")


PARENT = """
import asyncio, sys
from pathlib import Path
from shared.runtime.child import Bounds, in_child
from tests.shared.runtime.test_child import hang

if __name__ == "__main__":
    asyncio.run(in_child(hang, Path(sys.argv[1]), Bounds("the work", 600.0)))
"""


@pytest.mark.slow
async def test_a_child_whose_parent_is_killed_ends_by_itself(tmp_path: Path) -> None:
    """SIGKILL leaves the parent no time to end anything."""
    script, started = tmp_path / "parent.py", tmp_path / "pid"
    script.write_text(PARENT)
    project = str(Path(__file__).parents[3])
    environment = os.environ | {"PYTHONPATH": project}
    parent = await asyncio.create_subprocess_exec(sys.executable, script, started, env=environment)
    await wait_until(started.exists, "the child runs")
    parent.kill()
    await parent.wait()
    await wait_until(lambda: gone(started), "the child is gone")


async def test_ctrl_c_reaches_the_parent_alone_and_the_child_prints_nothing(tmp_path: Path) -> None:
    """A terminal sends SIGINT to the whole group."""
    script, started = tmp_path / "parent.py", tmp_path / "pid"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        script,
        started,
        env=environment,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        # A shell that starts this test in the background ignores SIGINT for all that it starts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    )
    await wait_until(started.exists, "the child runs")
    os.killpg(parent.pid, signal.SIGINT)
    _, errors = await parent.communicate()
    assert (parent.returncode, errors.decode()) == (INTERRUPTED, f"{LINE}\n")
    assert gone(started)


def gone(pid_file: Path) -> bool:
    """Ended, or a zombie that its new parent has yet to look at."""
    try:
        return bool(psutil.Process(int(pid_file.read_text())).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
