"""Leaders: one at a time, none that writes after it was followed, none that decides by an old mirror."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shared.domain import labels
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.leadership import (
    FreshMirror,
    OneLeader,
    PresentLeaderWrites,
    WholeCommands,
)
from simulation.invariants.picture import Picture
from tests.simulation.invariants.builders import History

HEALTHY = ("Launched", "Registered", "Initialized")


def replica(leading: bool, paused: bool = False) -> Any:
    status = {"leading": leading}
    return SimpleNamespace(
        alive=True, owner=SimpleNamespace(paused=paused), status=lambda: dict(status)
    )


@pytest.mark.parametrize(
    ("second", "sound"),
    [(replica(False), True), (replica(True), False), (replica(True, paused=True), True)],
)
def test_one_replica_at_most_says_that_it_leads(second: Any, sound: bool) -> None:
    # F14: one that is stopped says nothing.
    history = History(OneLeader())
    history.processes = {"scheduler-0": replica(True), "scheduler-1": second}
    history.event("process", name="scheduler-1", what="continue")
    assert (history.judge() == []) is sound


def test_leaders_of_two_services_are_no_rivals() -> None:
    history = History(OneLeader())
    history.processes = {"scheduler-0": replica(True), "watcher-0": replica(True)}
    history.event("process", name="scheduler-0", what="continue")
    assert history.judge() == []


def followed() -> History:
    """The scheduler of epoch 1 has been followed by that of epoch 2."""
    history = History(PresentLeaderWrites(Picture(), Disturbances()))
    history.lease("a", 1)
    history.wait(20)
    history.lease("b", 2)
    return history


@pytest.mark.parametrize(
    ("epoch", "seconds", "sound"), [("1", 1, True), ("1", 5, False), ("2", 5, True)]
)
def test_a_scheduler_that_was_followed_makes_no_machine(
    epoch: str, seconds: float, sound: bool
) -> None:
    """F14; a request that was on its way may arrive."""
    history = followed()
    history.wait(seconds)
    with history.by("scheduler"):
        history.machine("late", annotations={labels.EPOCH_ANNOTATION: epoch})
    assert (history.judge() == []) is sound


def test_a_lease_that_was_deleted_begins_anew() -> None:
    history = followed()
    history.store.delete(
        "leases", "dovetail-scheduler", group="coordination.k8s.io", namespace="default"
    )
    history.lease("c", 0)
    history.wait(5)
    with history.by("scheduler"):
        history.machine("new", annotations={labels.EPOCH_ANNOTATION: "0"})
    assert history.judge() == []


@pytest.mark.parametrize(("what", "sound"), [("start", False), ("kill", True)])
def test_a_command_that_was_cut_off_is_not_carried_out(what: str, sound: bool) -> None:
    # EXE-04
    history = History(WholeCommands(Picture(), Disturbances()))
    history.event("process", name="scheduler-0", what="start")
    history.wait(10)
    history.machine("a", "i-1", conditions=HEALTHY)
    history.command("a")
    history.wait(10)
    history.event("process", name="scheduler-0", what=what)
    history.wait(10)
    history.delete_machine("a", by="scheduler")
    assert (history.judge() == []) is sound


@pytest.mark.parametrize(("seconds", "sound"), [(60, True), (70, False)])
def test_nothing_is_bought_with_a_mirror_that_nobody_writes(seconds: float, sound: bool) -> None:
    # OPS-13
    history = History(FreshMirror(Picture(), Disturbances()))
    history.event("redis", command="xadd", stream="cluster")
    history.wait(seconds)
    with history.by("scheduler"):
        history.machine("a")
    assert (history.judge() == []) is sound


def test_no_machine_is_taken_with_a_mirror_that_nobody_writes() -> None:
    history = History(FreshMirror(Picture(), Disturbances()))
    history.machine("a", "i-1", conditions=HEALTHY)
    history.event("redis", command="xadd", stream="cluster")
    history.wait(70)
    history.command("a")
    assert history.judge() == ["NodeClaim/a was taken for a command with a mirror of 70 s ago"]
