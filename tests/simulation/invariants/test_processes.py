"""Processes: failures that nobody sees, and readiness that lies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from simulation.invariants.processes import (
    EverybodyIsReady,
    FewTasks,
    NoProcessDies,
    NothingFailsUnseen,
    UnreadyWhenCutOff,
)
from tests.simulation.invariants.builders import History


class Process:
    """One replica, as the invariants see it."""

    def __init__(self, *reasons: str, tasks: int = 3) -> None:
        self.reasons, self.alive = [*reasons], True
        self.owner = SimpleNamespace(paused=False)
        self._tasks = tasks

    def unready(self) -> list[str]:
        return self.reasons

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


def test_in_the_end_every_process_is_ready() -> None:
    world: Any = SimpleNamespace(processes={"a": Process(), "b": Process("loop x is late")})
    assert EverybodyIsReady().check(world) == ["b is not ready: loop x is late"]


def test_tasks_are_bounded() -> None:
    # I12
    world: Any = SimpleNamespace(processes={"a": Process(), "b": Process(tasks=501)})
    assert FewTasks().check(world) == ["b has 501 unfinished tasks, at most 500"]
