"""Work in child processes: every task has a result, whatever the child does, and no child outlives the run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from simulation.runner.children import Died, run_all


def square(number: int) -> int:
    return number * number


def burn(number: int) -> int:
    while True:
        number += 1


def fail(number: int) -> int:
    raise RuntimeError(f"no {number} today")


def vanish(number: int) -> int:
    os._exit(0)


def crash(number: int) -> int:
    os.kill(os.getpid(), signal.SIGTERM)
    return number


def hoard(number: int) -> bytes:
    return bytes(8 * 1024**3)


def unpicklable(number: int) -> object:
    return lambda: number


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_task_has_its_result(jobs: int) -> None:
    assert dict(run_all(square, range(12), jobs, 5)) == {number: number**2 for number in range(12)}


def test_large_results_arrive_whole() -> None:
    assert dict(run_all(lambda number: b"x" * number, [3_000_000], 1, 5)) == {
        3_000_000: b"x" * 3_000_000
    }


def test_a_child_runs_in_its_own_process() -> None:
    pids = {pid for _, pid in run_all(lambda _: os.getpid(), range(4), 2, 5)}
    assert len(pids) == 4
    assert os.getpid() not in pids


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (fail, "the simulation failed: RuntimeError: no 7 today"),
        (vanish, "the run ended without a result"),
        (crash, "the run ended by SIGTERM"),
        (burn, "the run needed more than 1 s of CPU"),
        (unpicklable, "the run ended without a result"),
        (hoard, "the simulation failed: MemoryError"),
    ],
)
def test_a_child_without_a_result_is_reported(work: Callable[[int], object], reason: str) -> None:
    ((task, found),) = run_all(work, [7], 1, 1)
    assert task == 7
    assert isinstance(found, Died)
    assert found.reason.startswith(reason)


def test_a_child_that_waits_for_the_real_world_is_killed() -> None:
    ((_, found),) = run_all(lambda _: time.sleep(600), [1], 1, 60, idle_seconds=0.5)
    assert found == Died("the run waited for something outside the simulation and was killed")


@pytest.mark.slow
def test_a_child_that_works_for_long_is_left_alone() -> None:
    def work(number: int) -> int:
        begun = time.process_time()
        while time.process_time() - begun < 0.5:
            pass
        return number

    assert list(run_all(work, [1], 1, 60, idle_seconds=0.1)) == [(1, 1)]


def test_one_failed_child_does_not_disturb_the_others() -> None:
    def work(number: int) -> int:
        return fail(number) if number == 2 else number

    found = dict(run_all(work, range(5), 2, 5))
    assert isinstance(found.pop(2), Died)
    assert found == {number: number for number in (0, 1, 3, 4)}


def test_children_end_with_the_run() -> None:
    reading, writing = os.pipe()

    def work(number: int) -> int:
        if number == 0:
            return 0
        os.write(writing, b"x")
        time.sleep(600)
        return number

    with closing(run_all(work, [1, 0], 2, 60)) as results:
        assert next(results) == (0, 0)
        assert os.read(reading, 1) == b"x", "the other child does not run"
    os.close(writing)
    assert os.read(reading, 1) == b"", "a child still holds the pipe"
    os.close(reading)


def test_children_end_when_the_parent_is_terminated() -> None:
    reading, writing = os.pipe()

    def work(_number: int) -> None:
        os.write(writing, b"x")
        time.sleep(600)

    if (parent := os.fork()) == 0:
        try:
            list(run_all(work, [1], 1, 60))
        finally:
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 1) == b"x"
    os.kill(parent, signal.SIGTERM)
    os.waitpid(parent, 0)
    assert os.read(reading, 1) == b"", "the child outlives its parent"
    os.close(reading)
