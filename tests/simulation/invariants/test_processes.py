"""Processes: failures that nobody sees, and readiness that lies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shared.runtime.services import Loop, until_stopped
from simulation.invariants.processes import (
    EverybodyIsReady,
    FewTasks,
    LoopsAreHonest,
    NoProcessDies,
    NothingFailsUnseen,
    UnreadyWhenCutOff,
)
from simulation.owner import Owner
from tests.simulation.invariants.builders import History


class Process:
    """One replica, as the invariants see it."""

    def __init__(self, *reasons: str, tasks: int = 3) -> None:
        self.reasons, self.alive = [*reasons], True
        self.owner = Owner("a")
        self.services = [None]
        self.loop = Loop("sweep", until_stopped, late_seconds=30.0)
        self.supervised = True
        self._tasks = tasks

    def unready(self) -> list[str]:
        return self.reasons

    def loops(self) -> list[Loop]:
        return [self.loop]

    def supervisors(self) -> dict[str, None]:
        return {self.loop.name: None} if self.supervised else {}

    def unfinished(self) -> list[None]:
        return [None] * self._tasks


def test_an_exception_that_reaches_the_event_loop_is_found() -> None:
    # R8
    history = History(NothingFailsUnseen())
    history.event("process", name="launcher-0", what="start")
    message = "Task exception was never retrieved"
    history.handler(None, {"message": message, "exception": KeyError("x")})
    history.event("redis", command="XADD")
    assert history.judge() == ["Task exception was never retrieved: KeyError: 'x'"]
    history.event("redis", command="XADD")
    assert history.judge() == []


def test_the_tasks_of_a_killed_process_say_nothing() -> None:
    history = History(NothingFailsUnseen())
    history.event("process", name="launcher-0", what="start")
    history.handler(None, {"message": "Task was destroyed but it is pending!"})
    history.event("redis", command="XADD")
    assert history.judge() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "sound"),
    [
        ("start", True),
        ("kill", True),
        ("exit", True),
        ("exit with an error: ConfigurationError: cannot reach Redis", True),
        ("exit with an error: KeyError: 'x'", False),
        ("exit with an error: TimeoutError: ", False),
    ],
)
def test_a_process_ends_when_it_is_asked_to(what: str, sound: bool) -> None:
    # F29
    history = History(NoProcessDies())
    history.event("process", name="launcher-0", what=what)
    assert (history.judge() == []) is sound


def cut_off(server: str) -> tuple[History, Any]:
    history = History(UnreadyWhenCutOff())
    process = history.processes["launcher-0"] = Process()
    history.blocked["launcher-0", server] = 1e9
    history.event("redis", command="XADD")
    return history, process


@pytest.mark.parametrize("server", ["api", "redis"])
def test_a_process_that_is_cut_off_and_says_that_it_is_ready_is_found(server: str) -> None:
    # R8
    history, _ = cut_off(server)
    history.wait(190)
    history.event("redis", command="XADD")
    assert history.judge() == []
    history.wait(20)
    history.event("redis", command="XADD")
    assert history.judge() == [
        f"launcher-0 is ready although it has not reached {server} for 210 s"
    ]


def test_a_process_that_says_so_tells_the_truth() -> None:
    history, process = cut_off("redis")
    process.reasons.append("Redis does not answer")
    history.wait(300)
    history.event("redis", command="XADD")
    assert history.judge() == []


def test_what_is_connected_again_begins_anew() -> None:
    history, _ = cut_off("redis")
    history.wait(150)
    history.blocked.clear()
    history.event("redis", command="XADD")
    history.blocked["launcher-0", "redis"] = 1e9
    history.wait(150)
    history.event("redis", command="XADD")
    assert history.judge() == []


def test_a_launcher_without_aws_is_ready() -> None:
    history, _ = cut_off("aws")
    history.wait(1000)
    history.event("redis", command="XADD")
    assert history.judge() == []


def running() -> tuple[History, Process]:
    """A process whose loop was started and made progress just now."""
    history = History(LoopsAreHonest())
    process = history.processes["launcher-0"] = Process()
    pass_time(history, process, 0)
    return history, process


def pass_time(history: History, process: Process, seconds: float, *, beats: bool = True) -> None:
    history.wait(seconds)
    if beats:
        process.loop.beat = history.clock.monotonic()
    history.event("redis", command="XADD")


def test_a_loop_that_makes_progress_is_alive() -> None:
    history, process = running()
    pass_time(history, process, 100)
    assert history.judge() == []


def test_a_ready_process_whose_loop_ended_is_found() -> None:
    # R8
    history, process = running()
    process.supervised = False
    pass_time(history, process, 6)
    pass_time(history, process, 39)
    assert history.judge() == []
    pass_time(history, process, 6)
    assert history.judge() == ["launcher-0 is ready although its loop sweep ended 45 s ago"]


def test_a_process_that_says_that_its_loop_ended_tells_the_truth() -> None:
    history, process = running()
    process.supervised = False
    process.reasons.append("loop sweep made no progress for 31 s")
    pass_time(history, process, 6)
    pass_time(history, process, 100)
    assert history.judge() == []


def test_a_ready_process_whose_loop_stands_still_is_found() -> None:
    history, process = running()
    pass_time(history, process, 41, beats=False)
    assert history.judge() == [
        "launcher-0 is ready although its loop sweep made no progress for 41 s"
    ]


@pytest.mark.parametrize("how", ["", " unexpectedly"])
@pytest.mark.parametrize(("restarts", "sound"), [(True, True), (False, False)])
def test_a_loop_that_failed_is_started_again(restarts: bool, sound: bool, how: str) -> None:
    # F29
    history, process = running()
    process.loop.started = history.clock.monotonic()
    history.event("failure", name="launcher-0", what=f"loop failed{how} sweep", foreseen=1)
    history.wait(1)
    if restarts:
        process.loop.started = history.clock.monotonic()
    pass_time(history, process, 45)
    assert (history.judge() == []) is sound


@pytest.mark.parametrize("other", ["capacity sweep", "unexpectedly capacity sweep"])
def test_a_loop_is_not_blamed_for_one_whose_name_ends_like_its_own(other: str) -> None:
    # features 2: the loop `reservations` runs once a minute, `capacity reservations` more often.
    history, process = running()
    process.loop.started = history.clock.monotonic()
    history.event("failure", name="launcher-0", what=f"loop failed {other}", foreseen=1)
    history.wait(1)
    pass_time(history, process, 45)
    assert history.judge() == []


def test_in_the_end_every_process_is_ready() -> None:
    world: Any = SimpleNamespace(processes={"a": Process(), "b": Process("loop x is late")})
    assert EverybodyIsReady().check(world) == ["b is not ready: loop x is late"]


def test_tasks_are_bounded() -> None:
    # I12
    world: Any = SimpleNamespace(processes={"a": Process(), "b": Process(tasks=501)})
    assert FewTasks().check(world) == ["b has 501 unfinished tasks, at most 500"]
