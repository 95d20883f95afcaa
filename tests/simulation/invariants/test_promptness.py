"""Promptness: what only a listing found, and notices that nobody heeded."""

from __future__ import annotations

import pytest

from local.aws.ec2.instances import SPOT_TERMINATION
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.launches import Launches
from simulation.invariants.picture import Picture
from simulation.invariants.promptness import NoticesAreHeeded, Promptness, RepeatedSoon
from tests.simulation.invariants.builders import History

HEALTHY = ("Launched", "Registered", "Initialized")


def calm() -> History:
    history = History(Promptness(Launches(Picture()), Disturbances()))
    history.event("process", name="launcher-0", what="start")
    history.wait(400)
    return history


def made(history: History, name: str = "a") -> str:
    with history.by("scheduler"):
        return history.machine(name)


def late(history: History) -> list[str]:
    """What is found when some time has passed."""
    history.wait(10)
    history.lease("somebody", 1)
    return history.judge()


def test_a_machine_that_is_launched_at_once_is_sound() -> None:
    history = calm()
    history.record("t1", made(history))
    assert late(history) == []


def test_a_machine_that_waits_for_a_listing_is_found() -> None:
    # R1, SVC-04
    history = calm()
    made(history)
    assert late(history) == ["NodeClaim/a was not launched within 8 s"]
    assert late(history) == []


def test_a_record_that_goes_with_its_launch_is_sound() -> None:
    history = calm()
    history.record("t1", made(history))
    history.status("a", "i-1", "Launched")
    history.drop_record("t1")
    assert late(history) == []


def test_a_record_that_outlives_its_launch_is_found() -> None:
    # F1
    history = calm()
    history.record("t1", made(history))
    history.status("a", "i-1", "Launched")
    assert late(history) == ["the launch record t1 is left of the launch of NodeClaim/a"]


def test_a_record_stays_while_another_machine_of_it_waits() -> None:
    history = calm()
    history.record("t1", made(history), made(history, "b"))
    history.status("a", "i-1", "Launched")
    assert late(history) == []


@pytest.mark.parametrize("kind", ["fault", "process"])
def test_a_fault_excuses_a_delay(kind: str) -> None:
    history = calm()
    history.event(kind, what="something", name="launcher-0")
    history.wait(100)
    made(history)
    assert late(history) == []


def test_a_machine_that_went_meanwhile_needs_no_launch() -> None:
    history = calm()
    made(history)
    history.delete_machine("a")
    assert late(history) == []


def test_a_deleted_machine_whose_drain_begins_is_sound() -> None:
    history = calm()
    history.machine("a", "i-1", conditions=HEALTHY)
    history.node("i-1")
    history.delete_machine("a")
    history.store.delete("nodes", "node-i-1")
    assert late(history) == []


def test_a_deleted_machine_that_waits_for_a_listing_is_found() -> None:
    history = calm()
    history.machine("a", "i-1", conditions=HEALTHY)
    history.node("i-1")
    history.delete_machine("a")
    assert late(history) == ["the drain of NodeClaim/a did not begin within 8 s"]


def announced() -> History:
    history = History(NoticesAreHeeded(Launches(Picture()), Disturbances()))
    history.start("i-1")
    history.machine("a", "i-1", conditions=HEALTHY)
    history.wait(300)
    history.event("fault", what="2 instances (spot) get a notice of two minutes, twice")
    history.wait(120)
    return history


def reclaim(history: History) -> list[str]:
    """EC2 takes the instance back."""
    instance = history.emulator.inventory.get("i-1")
    assert instance is not None
    history.emulator.inventory.terminate(instance, SPOT_TERMINATION)
    history.event("instance", id="i-1", state="shutting-down")
    return history.judge()


def test_a_machine_that_is_being_deleted_was_warned() -> None:
    # INT-10
    history = announced()
    history.delete_machine("a", by="interruption")
    assert reclaim(history) == []


@pytest.mark.parametrize(
    ("seconds", "deleted", "sound"), [(50, False, True), (70, False, False), (70, True, True)]
)
def test_a_notice_that_nobody_heeds_is_found_before_the_end(
    seconds: float, deleted: bool, sound: bool
) -> None:
    history = announced()
    history.emulator.notices.warn_spot("i-1", history.clock.now() + 120)
    if deleted:
        history.delete_machine("a", by="interruption")
    history.wait(seconds)
    history.lease("somebody", 1)
    assert (history.judge() == []) is sound


def test_a_notice_that_nobody_heeded_is_found() -> None:
    assert reclaim(announced()) == [
        "EC2 ended i-1, and NodeClaim/a was not deleted although that was announced"
    ]


def test_a_fault_just_before_the_end_excuses_it() -> None:
    history = announced()
    history.event("process", name="interruption-0", what="kill")
    assert reclaim(history) == []


@pytest.mark.parametrize(("seconds", "sound"), [(29.0, False), (31.0, True)])
def test_a_fault_excuses_it_for_a_while_after_its_own_end(seconds: float, sound: bool) -> None:
    history = History(NoticesAreHeeded(Launches(Picture()), Disturbances()))
    history.start("i-1")
    history.machine("a", "i-1", conditions=HEALTHY)
    history.wait(300)
    history.event("fault", what="no connection", fault="partition", seconds=seconds)
    history.wait(120)
    assert (reclaim(history) == []) is sound


def test_an_instance_that_somebody_ended_was_not_announced() -> None:
    history = announced()
    history.end("i-1")
    history.event("instance", id="i-1", state="shutting-down")
    assert history.judge() == []


def unanswered(calls: int = 1) -> History:
    """The calls for one machine have their effect, and their answers are lost."""
    history = History(RepeatedSoon(Launches(Picture()), Disturbances()))
    history.wait(400)
    history.record("t1", history.machine("a"))
    history.fault("aws-lost-answer")
    for _ in range(calls):
        history.call("CreateFleet", ClientToken="t1")
    return history


def test_a_call_without_an_answer_that_is_not_repeated_is_found() -> None:
    # F1
    assert late(unanswered()) == ["the call for NodeClaim/a was not repeated within 8 s"]


def test_a_call_that_is_repeated_soon_is_sound() -> None:
    history = unanswered()
    history.wait(5)
    history.call("CreateFleet", ClientToken="t1")
    history.wait(5)
    history.lease("somebody", 1)
    assert history.judge() == []


def test_the_third_call_within_a_minute_is_the_last() -> None:
    # F17
    assert late(unanswered(calls=3)) == []


@pytest.mark.parametrize("kind", ["aws-throttling", "latency"])
def test_where_something_else_holds_up_calls_nothing_is_said(kind: str) -> None:
    history = unanswered()
    history.fault(kind)
    assert late(history) == []


def test_a_launch_that_is_over_needs_no_repeat() -> None:
    history = unanswered()
    history.drop_record("t1")
    assert late(history) == []
