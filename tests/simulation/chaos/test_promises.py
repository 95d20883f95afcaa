"""Promises judged from outside: those of the simulation, with what was seen before a break."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from simulation.chaos.processes import RealProcess
from simulation.chaos.promises import INSIDE, SAFETY, Broken, Promises, evidence
from simulation.invariants import all_liveness, all_safety
from simulation.trace import Event, Trace
from tests.simulation.invariants.builders import History


class Judged:
    """Hands each event of a history to the promises, as the observer of a real stack does."""

    name = "all promises"
    kinds: tuple[str, ...] = ("api", "aws")

    def __init__(self) -> None:
        self.told: list[Broken] = []
        self.promises: Promises
        self.trace = Trace(lambda: 0.0)

    def check(self, event: Event, world: Any) -> list[str]:
        self.trace.add(event.kind, **event.fields)
        self.promises.observe(event)
        return []


def judged_history() -> tuple[History, Judged]:
    judged = Judged()
    history: Any = History(judged)
    history.trace = judged.trace
    judged.promises = Promises(history, judged.told.append)
    return history, judged


def test_every_name_is_that_of_a_promise_of_the_simulation() -> None:
    assert {one.name for one in all_safety()} >= SAFETY
    assert {one.name for one in all_liveness()} >= INSIDE


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({one.name for one in all_liveness()} - INSIDE))
def test_a_promise_for_the_end_asks_a_process_only_what_it_says_outside(name: str) -> None:
    """Whatever else is missing here: a run of minutes must not end with an error in its last second."""
    (promise,) = [one for one in all_liveness() if one.name == name]
    history: Any = History()
    stack: Any = SimpleNamespace(read=lambda: SimpleNamespace(parts={}))
    history.processes = {"launcher-0": RealProcess(stack, "launcher")}
    try:
        promise.check(history)
    except Exception as error:  # noqa: BLE001  # there is no Redis and no AWS
        assert "RealProcess" not in str(error)  # noqa: PT017


def test_a_doubled_launch_breaks_a_promise_and_is_told_once() -> None:
    history, judged = judged_history()
    uid = history.machine("a")
    history.record("t1", uid)
    history.start("i-1", "t1")
    assert judged.told == []
    judged.trace.add("fault", what="the next call is lost")
    history.record("t2", uid)
    history.start("i-2", "t2")
    (broken,) = judged.told
    assert str(broken) == (
        "broken after 0.0 s: one instance per machine: i-1, i-2 run for 1 machines"
    )
    assert any("the next call is lost" in line for line in broken.evidence)
    judged.promises.judge(broken.promise, [broken.sentence])
    assert judged.told == [broken]


def test_what_was_judged_is_counted() -> None:
    history, judged = judged_history()
    history.record("t1", history.machine("a"))
    history.start("i-1", "t1")
    assert judged.promises.checks["one instance per machine"] == 3  # Two objects and one call.


def test_evidence_is_about_what_the_sentence_names_and_the_last_faults() -> None:
    kept = [
        Event(1, 1.0, "fault", {"what": "first"}),
        *(Event(number, 2.0, "fault", {"what": f"fault {number}"}) for number in range(2, 7)),
        Event(7, 3.0, "api", {"resource": "nodes", "name": "node-1"}),
        Event(8, 4.0, "api", {"resource": "nodes", "name": "other"}),
        Event(9, 5.0, "aws", {"action": "CreateFleet"}),
    ]
    found = evidence(kept, "node node-1 has no machine")
    assert [line.split()[0] for line in found] == ["2.000"] * 5 + ["3.000"]
    assert "node-1" in found[-1]
