"""Pods on machines that go: budgets are kept, and an instance ends after its pods have left."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from shared.concurrency.clock import rfc3339
from shared.domain import labels
from simulation.invariants.evictions import DrainedFirst, PodBudgets
from simulation.invariants.picture import Picture
from tests.simulation.invariants.builders import History

REGISTERED = ("Launched", "Registered", "Initialized")


def protected(desired: int, allowed: int) -> History:
    """Two ready pods on a node that is drained."""
    history = History(PodBudgets(Picture()))
    skew = SimpleNamespace(owner=SimpleNamespace(skew_seconds=0.0))
    history.processes = {"terminator-0": skew}
    history.machine("a", "i-1", conditions=REGISTERED)
    history.node("i-1")
    for name in ("web-1", "web-2"):
        history.pod(name, "node-i-1")
    history.pod_budget(desired, allowed)
    return history


def delete_pod(history: History, name: str, by: str = "terminator") -> None:
    with history.by(by):
        history.store.delete("pods", name, namespace="default")


def test_an_eviction_that_the_budget_allows_is_sound() -> None:
    history = protected(desired=1, allowed=1)
    history.evict("web-1")
    assert history.judge() == []


def test_a_deletion_past_the_budget_is_found() -> None:
    # I6, F22
    history = protected(desired=2, allowed=0)
    delete_pod(history, "web-1")
    assert history.judge() == ["pod web-1 was deleted and not evicted, before the deadline"]


def test_a_deletion_is_wrong_even_where_the_budget_would_have_allowed_it() -> None:
    history = protected(desired=1, allowed=1)
    delete_pod(history, "web-1")
    assert len(history.judge()) == 1


@pytest.mark.parametrize("by", ["users", "kubelet"])
def test_what_others_delete_is_their_wish(by: str) -> None:
    history = protected(desired=2, allowed=0)
    delete_pod(history, "web-1", by=by)
    assert history.judge() == []


@pytest.mark.parametrize(("seconds", "sound"), [(20, True), (100, False)])
def test_the_deadline_of_the_machine_overrules_budgets(seconds: float, sound: bool) -> None:
    """TRM-11: so early that the pod's grace of 5 s fits."""
    history = protected(desired=2, allowed=0)
    deadline = rfc3339(history.clock.now() + seconds)
    history.annotate("a", labels.TERMINATION_TIMESTAMP, deadline)
    history.wait(15)
    delete_pod(history, "web-1")
    assert (history.judge() == []) is sound


def drained(*conditions: str) -> History:
    history = History(DrainedFirst(Picture()))
    skew = SimpleNamespace(owner=SimpleNamespace(skew_seconds=0.0))
    history.processes = {"terminator-0": skew}
    history.start("i-1")
    history.machine("a", "i-1", conditions=conditions or REGISTERED)
    history.node("i-1")
    return history


def test_an_instance_ends_when_its_pods_have_left() -> None:
    history = drained()
    history.pod("web-1", "node-i-1")
    history.store.delete("pods", "web-1", namespace="default", grace_seconds=0)
    history.wait(60)
    history.end("i-1")
    assert history.judge() == []


def test_an_instance_that_ends_under_a_running_pod_is_found() -> None:
    # TRM-03
    history = drained()
    history.pod("web-1", "node-i-1")
    history.wait(60)
    history.end("i-1")
    assert history.judge() == ["i-1 was ended while pod default/web-1 ran on node-i-1"]


def test_a_pod_that_somebody_let_in_a_moment_ago_was_not_seen() -> None:
    history = drained()
    history.wait(60)
    history.pod("web-1", "node-i-1")
    history.end("i-1")
    assert history.judge() == []


def test_daemon_pods_and_pods_that_tolerate_the_taint_stay() -> None:
    # TRM-06
    history = drained()
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}
    history.pod("daemon", "node-i-1", ownerReferences=[{**owner, "controller": True}])
    history.pod("tolerant", "node-i-1", spec={"tolerations": [{"operator": "Exists"}]})
    history.wait(60)
    history.end("i-1")
    assert history.judge() == []


def test_a_dead_node_is_not_waited_for() -> None:
    history = drained()
    history.pod("web-1", "node-i-1")
    history.not_ready("node-i-1")
    history.wait(60)
    history.end("i-1")
    assert history.judge() == []


def test_a_node_that_was_never_registered_is_not_drained() -> None:
    history = drained("Launched")
    history.pod("web-1", "node-i-1")
    history.wait(60)
    history.end("i-1")
    assert history.judge() == []


@pytest.mark.parametrize(("seconds", "sound"), [(50, True), (200, False)])
def test_at_the_deadline_pods_are_not_waited_for(seconds: float, sound: bool) -> None:
    # TRM-12
    history = drained()
    history.pod("web-1", "node-i-1")
    deadline = rfc3339(history.clock.now() + seconds)
    history.annotate("a", labels.TERMINATION_TIMESTAMP, deadline)
    history.wait(60)
    history.end("i-1")
    assert (history.judge() == []) is sound


@pytest.mark.parametrize(("finalizers", "sound"), [([labels.FINALIZER], True), ([], False)])
def test_a_registered_node_stays_until_it_was_drained(finalizers: list[str], sound: bool) -> None:
    """TRM-02: whoever deletes it."""
    history = drained()
    history.store.patch("nodes", "node-i-1", {"metadata": {"finalizers": finalizers}})
    history.store.delete("nodes", "node-i-1")
    assert (history.judge() == []) is sound


def test_the_node_of_an_instance_that_ended_may_go_at_once() -> None:
    history = drained()
    history.store.patch("nodes", "node-i-1", {"metadata": {"finalizers": []}})
    history.end("i-1")
    history.store.delete("nodes", "node-i-1")
    assert history.judge() == []
