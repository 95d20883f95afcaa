"""The first decision about a pod is timed, and no other (POD-11)."""

from __future__ import annotations

from services.scheduler.provisioning.pod_latency import MOST_SEEN, DecisionLatency


def test_the_time_from_first_sight_to_the_first_decision_is_recorded_once() -> None:
    decisions = DecisionLatency()
    decisions.see("a", now=1.0)
    decisions.see("a", now=2.0)
    assert decisions.decide(["a"], waiting=["a"], now=4.0) == [3.0]
    decisions.see("a", now=5.0)
    assert decisions.decide(["a"], waiting=["a"], now=9.0) == []


def test_a_pod_that_a_round_had_no_time_for_waits_on() -> None:
    """BAT-07: it is no decision that there was none."""
    decisions = DecisionLatency()
    decisions.see("late", now=0.0)
    assert decisions.decide([], waiting=["late"], now=60.0) == []
    assert decisions.decide(["late"], waiting=["late"], now=61.0) == [61.0]


def test_a_pod_that_nobody_told_of_has_no_time() -> None:
    """After a restart nobody knows since when it waits."""
    assert DecisionLatency().decide(["a"], waiting=["a"], now=4.0) == []


def test_what_waits_no_longer_is_forgotten() -> None:
    decisions = DecisionLatency()
    decisions.see("gone", now=0.0)
    decisions.see("bound", now=0.0)
    decisions.decide(["bound"], waiting=["bound"], now=1.0)
    decisions.decide([], waiting=[], now=2.0)
    assert decisions == DecisionLatency()


def test_a_flood_does_not_fill_the_memory() -> None:
    decisions = DecisionLatency()
    uids = [str(number) for number in range(MOST_SEEN + 1)]
    for uid in uids:
        decisions.see(uid, now=0.0)
    assert len(decisions.decide(uids, waiting=uids, now=1.0)) == MOST_SEEN
