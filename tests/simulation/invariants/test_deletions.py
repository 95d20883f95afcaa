"""Deletions: nothing is destroyed without proof, and nothing healthy as garbage."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from simulation.invariants.deletions import (
    ProvenDeletions,
    ProvenTerminations,
    ReleasedLast,
    ReplacedFirst,
)
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.launches import Launches
from simulation.invariants.picture import Picture
from tests.simulation.invariants.builders import History

HEALTHY = ("Launched", "Registered", "Initialized")


@pytest.fixture
def history() -> History:
    return History(ProvenTerminations(Launches(Picture())))


def launched(history: History, name: str = "a", instance_id: str = "i-1") -> None:
    history.record("t1", history.machine(name))
    history.start(instance_id, "t1")
    history.status(name, instance_id, *HEALTHY)
    history.drop_record("t1")
    history.wait(300)


def test_the_instance_of_a_deleted_machine_is_ended(history: History) -> None:
    launched(history)
    history.delete_machine("a")
    history.end("i-1")
    assert history.judge() == []


def test_the_instance_of_a_machine_that_stays_is_never_ended(history: History) -> None:
    # I3, TRM-01
    launched(history)
    history.end("i-1")
    assert history.judge() == ["i-1 was ended although NodeClaim/a stays"]


def test_an_instance_without_a_machine_is_ended_after_the_grace(history: History) -> None:
    # R7
    launched(history)
    history.release_machine("a")
    history.delete_machine("a")
    history.wait(30)
    history.end("i-1")
    assert history.judge() == ["i-1 was ended 30.0 s after it lost its owner, at once"]


def test_an_instance_that_was_without_a_machine_for_long_is_garbage(history: History) -> None:
    launched(history)
    history.release_machine("a")
    history.delete_machine("a")
    history.wait(61)
    history.end("i-1")
    assert history.judge() == []


def test_an_instance_that_an_open_launch_will_adopt_is_not_ended(history: History) -> None:
    # F1
    history.record("t1", history.machine("a"))
    history.start("i-1", "t1")
    history.wait(300)
    history.end("i-1")
    assert history.judge() == ["i-1 was ended although NodeClaim/a waits for it"]


def test_the_instances_of_a_launch_that_nobody_wants_end_at_once(history: History) -> None:
    history.record("t1", history.machine("a"))
    history.start("i-1", "t1")
    history.delete_machine("a")
    history.end("i-1")
    assert history.judge() == []


def test_the_instance_of_a_deleted_node_without_a_machine_is_ended(history: History) -> None:
    # TRM-17
    launched(history)
    history.node("i-1")
    history.release_machine("a")
    history.delete_machine("a")
    history.store.delete("nodes", "node-i-1")
    history.end("i-1")
    assert history.judge() == []


def test_an_order_may_be_repeated_when_its_answer_was_lost(history: History) -> None:
    # F19: what it was for may be gone by then
    launched(history)
    history.delete_machine("a")
    history.end("i-1")
    history.release_machine("a")
    history.end("i-1")
    assert history.judge() == []


def test_a_person_may_end_any_instance(history: History) -> None:
    launched(history)
    instance = history.emulator.inventory.get("i-1")
    assert instance is not None
    history.emulator.inventory.terminate(instance)
    history.event("instance", id="i-1", state="shutting-down")
    assert history.judge() == []


@pytest.mark.parametrize("going", [True, False])
def test_after_a_restore_the_forgotten_are_not_ended_at_once(history: History, going: bool) -> None:
    """F23; an order that was given before the restore may still arrive."""
    launched(history)
    if going:
        history.delete_machine("a")
    forget(history)
    history.end("i-1")
    assert (history.judge() == []) is going


@pytest.mark.parametrize(("seconds", "sound"), [(50, False), (65, True)])
def test_a_second_restore_does_not_begin_the_grace_of_the_forgotten_anew(
    history: History, seconds: float, sound: bool
) -> None:
    # F23, R7
    launched(history)
    forget(history)
    history.lease("somebody", 1)
    history.wait(seconds - 20)
    forget(history)
    history.lease("somebody", 2)
    history.wait(20)
    history.end("i-1")
    assert (history.judge() == []) is sound


def forget(history: History) -> None:
    """The API server is restored from a backup that is older than the machine."""
    with history.restored():
        if history.store.find("nodeclaims", "a", group="karpenter.sh"):
            history.release_machine("a")
        if history.store.find("nodeclaims", "a", group="karpenter.sh"):
            history.store.delete("nodeclaims", "a", group="karpenter.sh")


def healthy() -> History:
    history = History(ProvenDeletions(Launches(Picture())))
    launched(history)
    history.node("i-1")
    history.wait(60)
    return history


def test_a_healthy_machine_is_no_garbage() -> None:
    # F24, LCH-80
    history = healthy()
    history.delete_machine("a", by="launcher")
    (sentence,) = history.judge()
    assert "NodeClaim/a was deleted as garbage" in sentence


@pytest.mark.parametrize("by", ["scheduler", "users", "interruption"])
def test_others_decide_by_something_else(by: str) -> None:
    history = healthy()
    history.delete_machine("a", by=by)
    assert history.judge() == []


def test_a_machine_whose_instance_is_gone_is_garbage() -> None:
    history = healthy()
    history.end("i-1")
    history.delete_machine("a", by="launcher")
    assert history.judge() == []


@pytest.mark.parametrize(("seconds", "sound"), [(60, False), (130, True)])
def test_a_machine_whose_instance_is_too_new_for_lists_is_no_garbage(
    seconds: float, sound: bool
) -> None:
    # F20
    history = History(ProvenDeletions(Launches(Picture())))
    history.start("i-1").launched_at = history.clock.now()
    history.machine("a", "i-1", conditions=("Launched",))
    history.wait(seconds)
    history.delete_machine("a", by="launcher")
    assert (history.judge() == []) is sound


def test_a_machine_whose_instance_was_stopped_before_its_node_joined_is_given_up() -> None:
    history = History(ProvenDeletions(Launches(Picture())))
    instance = history.start("i-1")
    instance.launched_at, instance.state = history.clock.now(), "stopping"
    history.machine("a", "i-1", conditions=("Launched",))
    history.delete_machine("a", by="launcher")
    assert history.judge() == []


@pytest.mark.parametrize(("seconds", "sound"), [(30, False), (65, True)])
def test_a_new_machine_whose_node_somebody_removed_is_garbage_after_the_grace(
    seconds: float, sound: bool
) -> None:
    # F24: the node was deleted before the launcher registered it, so nothing drained it
    history = History(ProvenDeletions(Launches(Picture())))
    history.start("i-1").launched_at = history.clock.now()
    history.machine("a", "i-1", conditions=("Launched",))
    history.store.delete("nodes", history.node("i-1", finalizers=[]))
    history.wait(seconds)
    history.delete_machine("a", by="launcher")
    assert (history.judge() == []) is sound


def test_a_new_machine_whose_node_came_back_is_no_garbage() -> None:
    history = History(ProvenDeletions(Launches(Picture())))
    history.start("i-1").launched_at = history.clock.now()
    history.machine("a", "i-1", conditions=("Launched",))
    history.store.delete("nodes", history.node("i-1", finalizers=[]))
    history.wait(65)
    history.node("i-1")
    history.delete_machine("a", by="launcher")
    assert history.judge() != []


def test_a_machine_whose_node_is_not_ready_may_be_garbage() -> None:
    history = healthy()
    history.not_ready("node-i-1")
    history.delete_machine("a", by="launcher")
    assert history.judge() == []


def test_the_terminator_deletes_a_machine_whose_node_was_deleted() -> None:
    # TRM-02
    history = healthy()
    history.store.delete("nodes", "node-i-1")
    history.delete_machine("a", by="terminator")
    assert history.judge() == []


def test_the_terminator_deletes_no_machine_whose_node_stays() -> None:
    history = healthy()
    history.delete_machine("a", by="terminator")
    assert history.judge() == ["NodeClaim/a was deleted although its node node-i-1 stays"]


@pytest.mark.parametrize(("seconds", "sound"), [(0, True), (65, False)])
def test_just_after_a_restore_the_terminator_may_not_know_that_the_node_is_back(
    seconds: float, sound: bool
) -> None:
    # F23: seed 2027 of rollback, where the node was deleted 46 ms before the machine and restored in between
    history = healthy()
    with history.restored():
        pass
    history.store.patch("nodes", "node-i-1", {"metadata": {"labels": {"is": "back"}}})
    history.wait(seconds)
    history.delete_machine("a", by="terminator")
    assert (history.judge() == []) is sound


def decided(**spec: str) -> History:
    history = History(ReplacedFirst(Launches(Picture())))
    history.processes = {"scheduler-0": SimpleNamespace(owner=SimpleNamespace(skew_seconds=0.0))}
    history.machine("a", "i-1", conditions=HEALTHY, spec=spec)
    return history


def test_the_scheduler_deletes_a_machine_for_a_command() -> None:
    history = decided()
    history.command("a")
    history.delete_machine("a", by="scheduler")
    assert history.judge() == []


def test_the_scheduler_deletes_no_machine_without_a_command() -> None:
    """EXE-02: the record is written before anything else."""
    history = decided()
    history.delete_machine("a", by="scheduler")
    assert history.judge() == ["NodeClaim/a was deleted without a command"]


@pytest.mark.parametrize(("replicas", "sound"), [(0, True), (1, False)])
def test_one_more_than_a_static_pool_wants_needs_no_command(replicas: int, sound: bool) -> None:
    # GAT-01
    history = decided()
    history.pool("fixed", replicas=replicas)
    history.machine("b", "i-2", conditions=HEALTHY, pool="fixed")
    history.delete_machine("b", by="scheduler")
    assert (history.judge() == []) is sound


@pytest.mark.parametrize(
    ("opens", "outside", "sound"),
    [("0 0 1 1 *", "drain", True), ("0 0 1 1 *", "keep", False), ("* * * * *", "drain", False)],
    ids=["closed", "closed and kept", "open"],
)
def test_a_machine_of_a_closed_pool_needs_no_command(opens: str, outside: str, sound: bool) -> None:
    history = decided()
    history.pool()
    history.annotate_pool(hours=f'{{schedule: "{opens}", duration: 1h}}', outside_hours=outside)
    history.delete_machine("a", by="scheduler")
    assert (history.judge() == []) is sound


def test_a_machine_goes_after_its_replacement_is_ready() -> None:
    """EXE-06; a replacement that was ready and is gone by now was ready all the same."""
    history = decided()
    history.machine("b", "i-2", conditions=HEALTHY)
    history.command("a", replacements=("b",))
    history.delete_machine("b")
    history.release_machine("b")
    history.delete_machine("a", by="scheduler")
    assert history.judge() == []


def test_a_machine_stays_until_its_replacement_is_ready() -> None:
    # EXE-04
    history = decided()
    history.machine("b", "i-2", conditions=("Launched", "Registered"))
    history.command("a", replacements=("b",))
    history.delete_machine("a", by="scheduler")
    assert history.judge() == ["NodeClaim/a was deleted before NodeClaim/b was ready"]


def test_a_machine_that_was_never_ready_needs_no_command() -> None:
    history = decided()
    history.machine("b", "i-2", conditions=("Launched",))
    history.delete_machine("b", by="scheduler")
    assert history.judge() == []


@pytest.mark.parametrize(
    ("skew", "age", "sound"),
    [(0, 899, True), (0, 890, False), (60, 840, True), (3600, 840, True), (3600, 10, False)],
)
def test_a_machine_whose_time_is_up_goes_without_a_command(
    skew: float, age: float, sound: bool
) -> None:
    """DIS-60; by the scheduler's clock, which may be a minute ahead: more shows in that of Redis (F13)."""
    history = decided(expireAfter="15m")
    history.processes["scheduler-0"].owner.skew_seconds = float(skew)
    history.wait(age)
    history.delete_machine("a", by="scheduler")
    assert (history.judge() == []) is sound


@pytest.fixture
def leaving() -> History:
    """A deleted machine with a running instance and a node."""
    history = History(ReleasedLast(Launches(Picture()), Disturbances()))
    launched(history)
    history.node("i-1")
    history.delete_machine("a")
    history.store.delete("nodes", "node-i-1")
    return history


def release(history: History, by: str) -> list[str]:
    with history.by(by):
        body = {"metadata": {"finalizers": None}}
        history.store.patch("nodes", "node-i-1", body)
        history.release_machine("a")
    return history.judge()


def test_machine_and_node_are_released_after_the_end_of_the_instance(leaving: History) -> None:
    leaving.end("i-1")
    instance = leaving.emulator.inventory.get("i-1")
    assert instance is not None
    instance.state = "terminated"
    assert release(leaving, "terminator") == []


def test_a_release_while_the_instance_still_ends_is_found(leaving: History) -> None:
    # I3
    leaving.end("i-1")
    assert release(leaving, "terminator") == [
        "Node/node-i-1 was released while i-1 was shutting-down",
        "NodeClaim/a was released while i-1 was shutting-down",
    ]


@pytest.mark.parametrize(("seconds", "sound"), [(1, True), (5, False)])
def test_a_release_during_a_launch_is_found(seconds: float, sound: bool) -> None:
    """LCH-81; a record that was written a moment ago was not seen, and is not sent."""
    history = History(ReleasedLast(Launches(Picture()), Disturbances()))
    history.record("t1", history.machine("a"))
    history.wait(seconds)
    history.delete_machine("a")
    with history.by("terminator"):
        history.release_machine("a")
    assert (history.judge() == []) is sound


def test_a_person_may_remove_finalizers(leaving: History) -> None:
    # TRM-16
    assert release(leaving, "users") == []
