"""Launches: sound histories pass, each broken one is found."""

from __future__ import annotations

import pytest

from shared.domain import labels
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.launches import (
    FencedLaunches,
    IntentFirst,
    Launches,
    LivingInstances,
    OneInstancePerMachine,
    WithinLimits,
)
from simulation.invariants.picture import Picture
from tests.simulation.invariants.builders import History


def single() -> History:
    return History(OneInstancePerMachine(Launches(Picture())))


def test_a_launch_has_one_instance() -> None:
    history = single()
    uid = history.machine("a")
    history.record("t1", uid)
    history.start("i-1", "t1")
    assert history.judge() == []


def test_a_second_instance_for_one_machine_is_found() -> None:
    """I1: an attempt with a new token while the first instance lives."""
    history = single()
    uid = history.machine("a")
    history.record("t1", uid)
    history.start("i-1", "t1")
    history.record("t2", uid)
    history.start("i-2", "t2")
    assert history.judge() == ["i-1, i-2 run for 1 machines"]


def test_a_new_attempt_after_the_first_instance_ended_is_sound() -> None:
    history = single()
    uid = history.machine("a")
    history.record("t1", uid)
    history.start("i-1", "t1")
    history.end("i-1")
    history.record("t2", uid)
    history.start("i-2", "t2")
    assert history.judge() == []


@pytest.mark.slow
def test_a_fleet_that_gave_too_little_is_completed_by_another_call() -> None:
    """F19: two of three instances came; the third machine has a call of its own."""
    history = single()
    uids = [history.machine(name) for name in ("a", "b", "c")]
    history.record("t1", *uids)
    history.start("i-1", "t1")
    history.start("i-2", "t1")
    history.record("t2", uids[2])
    history.start("i-3", "t2")
    assert history.judge() == []
    history.record("t3", uids[0])
    history.start("i-4", "t3")
    assert history.judge() == ["i-1, i-2, i-3, i-4 run for 3 machines"]


def test_a_call_that_is_repeated_without_its_token_is_found() -> None:
    history = single()
    history.record("t1", history.machine("a"))
    history.start("i-1", "t1")
    history.start("i-2", "t1")
    assert history.judge() == ["i-1, i-2 run for 1 machines"]


def limited(**limits: str) -> History:
    history = History(WithinLimits(Launches(Picture()), Disturbances()))
    history.pool(limits=limits)
    history.wait(120)
    return history


def launched(history: History, name: str, instance_id: str, **more: object) -> None:
    """A machine with a running instance of 4 CPUs."""
    uid = history.machine(name)
    history.record(f"token-{instance_id}", uid)
    history.start(instance_id, f"token-{instance_id}")
    history.status(name, instance_id, "Launched", "Initialized")
    history.drop_record(f"token-{instance_id}")


def test_launches_up_to_the_limit_are_sound() -> None:
    history = limited(cpu="8")
    launched(history, "a", "i-1")
    launched(history, "b", "i-2")
    assert history.judge() == []


def test_a_launch_above_the_limit_is_found() -> None:
    # I4
    history = limited(cpu="8")
    for name, number in (("a", "i-1"), ("b", "i-2"), ("c", "i-3")):
        launched(history, name, number)
    assert history.judge() == ["NodePool/main uses 12000 of at most 8000 cpu after a launch"]


def test_the_limit_of_nodes_counts() -> None:
    history = limited(nodes="1")
    launched(history, "a", "i-1")
    launched(history, "b", "i-2")
    assert history.judge() == ["NodePool/main uses 2 of at most 1 nodes after a launch"]


def test_a_restored_limit_counts() -> None:
    history = limited(cpu="8")
    history.pool(limits={"cpu": "4"})
    history.wait(100)
    with history.restored():
        history.pool(limits={"cpu": "8"})
    history.lease("somebody", 1)
    history.wait(300)
    launched(history, "a", "i-1")
    launched(history, "b", "i-2")
    assert history.judge() == []


def test_a_limit_that_was_lowered_a_moment_ago_may_not_have_been_seen() -> None:
    history = limited(cpu="8")
    launched(history, "a", "i-1")
    history.pool(limits={"cpu": "4"})
    history.wait(1)
    launched(history, "b", "i-2")
    assert history.judge() == []
    history.wait(3)
    launched(history, "c", "i-3")
    assert history.judge() == ["NodePool/main uses 12000 of at most 4000 cpu after a launch"]


@pytest.mark.parametrize(("kind", "sound"), [("latency", True), ("launcher-killed", False)])
def test_only_slow_requests_excuse_an_old_limit(kind: str, sound: bool) -> None:
    """BAT-08: the launcher reads the limits and writes its record in one round."""
    history = limited(cpu="8")
    history.fault(kind)
    launched(history, "a", "i-1")
    history.pool(limits={"cpu": "4"})
    history.wait(30)
    launched(history, "b", "i-2")
    assert (history.judge() == []) is sound


def test_memory_is_limited_too() -> None:
    history = limited(memory="20Gi")
    launched(history, "a", "i-1")
    assert history.judge() == []
    launched(history, "b", "i-2")
    assert len(history.judge()) == 1


def test_the_largest_terminating_machine_does_not_count() -> None:
    """BAT-08: its pods need room elsewhere before it can go; a second one counts."""
    history = limited(cpu="8")
    launched(history, "a", "i-1")
    launched(history, "b", "i-2")
    history.delete_machine("a")
    launched(history, "c", "i-3")
    assert history.judge() == []
    history.delete_machine("b")
    launched(history, "d", "i-4")
    assert history.judge() == ["NodePool/main uses 12000 of at most 8000 cpu after a launch"]


def test_what_a_command_replaces_does_not_count() -> None:
    history = limited(cpu="8")
    launched(history, "a", "i-1")
    launched(history, "b", "i-2")
    history.machine("c")
    history.command("a", replacements=("c",))
    uid = history.store.get("nodeclaims", "c", group="karpenter.sh")["metadata"]["uid"]
    history.record("t3", uid)
    history.start("i-3", "t3")
    assert history.judge() == []


def test_an_instance_that_no_machine_names_is_garbage_and_not_counted() -> None:
    history = limited(cpu="4")
    history.start("i-1", "unknown")
    launched(history, "a", "i-2")
    assert history.judge() == []


def fenced() -> History:
    return History(FencedLaunches(Launches(Picture())))


def test_machines_of_the_present_leader_are_launched() -> None:
    history = fenced()
    history.machine("new", annotations={labels.EPOCH_ANNOTATION: "4"})
    history.wait(5)
    uid = history.machine("newer", annotations={labels.EPOCH_ANNOTATION: "4"})
    history.wait(5)
    history.record("t1", uid)
    history.start("i-1", "t1")
    assert history.judge() == []


def test_what_an_old_leader_made_before_the_new_one_is_launched() -> None:
    history = fenced()
    uid = history.machine("old", annotations={labels.EPOCH_ANNOTATION: "3"})
    history.wait(5)
    history.machine("new", annotations={labels.EPOCH_ANNOTATION: "4"})
    history.wait(5)
    history.record("t1", uid)
    history.start("i-1", "t1")
    assert history.judge() == []


def test_what_an_old_leader_made_after_the_new_one_is_never_launched() -> None:
    # I9, F14
    history = fenced()
    history.machine("new", annotations={labels.EPOCH_ANNOTATION: "4"})
    history.wait(5)
    uid = history.machine("late", annotations={labels.EPOCH_ANNOTATION: "3"})
    history.wait(5)
    history.record("t1", uid)
    history.start("i-1", "t1")
    assert history.judge() == [
        "i-1 was launched for NodeClaim/late of epoch 3, although NodeClaim/new of epoch 4 existed before it"
    ]


def test_an_instance_without_a_record_of_its_launch_is_found() -> None:
    # F1
    history = History(IntentFirst(Launches(Picture())))
    history.record("t1", history.machine("a"))
    history.start("i-1", "t1")
    assert history.judge() == []
    history.start("i-2", "t2")
    assert history.judge() == ["i-2 was started by t2, which is not written down"]


def test_a_record_that_is_gone_was_written_down_all_the_same() -> None:
    """EC2 may answer late."""
    history = History(IntentFirst(Launches(Picture())))
    history.record("t1", history.machine("a"))
    history.drop_record("t1")
    history.start("i-1", "t1")
    assert history.judge() == []


def test_a_machine_that_changes_its_instance_is_found() -> None:
    # I1
    history = History(IntentFirst(Launches(Picture())))
    history.machine("a", "i-1")
    history.status("a", "i-1", "Launched")
    assert history.judge() == []
    history.status("a", "i-2", "Launched")
    assert history.judge() == [
        "NodeClaim/a changed from aws:///us-west-2a/i-1 to aws:///us-west-2a/i-2"
    ]


@pytest.mark.parametrize(
    ("fault", "seconds", "sound"),
    [
        ("", 2, True),
        ("", 10, False),
        ("latency", 10, True),
        ("aws-lost-answer", 10, False),
        ("ec2-stale-lists", 10, True),
    ],
)
def test_a_machine_gets_no_instance_that_had_ended(fault: str, seconds: float, sound: bool) -> None:
    """F19, F20: where neither lists nor requests are late."""
    history = History(LivingInstances(Launches(Picture()), Disturbances()))
    history.machine("a")
    history.start("i-1")
    history.wait(10)
    if fault:
        history.fault(fault)
    history.event("instance", id="i-1", state="shutting-down")
    history.wait(seconds)
    history.status("a", "i-1", "Launched")
    assert (history.judge() == []) is sound
