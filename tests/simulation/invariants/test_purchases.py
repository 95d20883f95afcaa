"""Purchases: machines for nobody, and two machines for the same pods."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shared.domain import labels
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.launches import Launches
from simulation.invariants.picture import Picture
from simulation.invariants.purchases import (
    MOST_TURNS,
    TURNS_SECONDS,
    BoughtOnce,
    OrderedToStay,
    WantedByPools,
)
from tests.simulation.invariants.builders import History


def shop(*pods: str) -> History:
    """A pool, and pods of one CPU each that wait."""
    history = History(BoughtOnce(Launches(Picture()), Disturbances()))
    history.pool()
    for name in pods:
        history.pod(name)
    history.wait(1)
    return history


def buy(history: History, name: str, pods: int, **more: Any) -> None:
    """The scheduler makes a machine for so many of them."""
    requests = {"cpu": str(pods), "memory": f"{pods}Gi"}
    spec = {"resources": {"requests": requests}, **more.pop("spec", {})}
    with history.by("scheduler"):
        history.machine(name, annotations={labels.PLAN_ANNOTATION: "p"}, spec=spec, **more)


def test_machines_for_all_pods_that_wait_are_sound() -> None:
    history = shop("a", "b", "c")
    buy(history, "m1", 2)
    buy(history, "m2", 1)
    assert history.judge() == []


def test_a_second_machine_for_the_same_pods_is_found() -> None:
    # BAT-05
    history = shop("a", "b")
    buy(history, "m1", 2)
    buy(history, "m2", 2)
    assert history.judge() == [
        "NodeClaim/m2 was made beside NodeClaim/m1: 4000 cpu for pods that ask for 2000"
    ]


def test_a_machine_for_pods_that_are_gone_is_found() -> None:
    history = shop("a")
    history.store.delete("pods", "a", namespace="default", grace_seconds=0)
    history.wait(3)
    buy(history, "m1", 1)
    assert history.judge() == ["NodeClaim/m1 was made: 1000 cpu for pods that ask for 0"]


@pytest.mark.parametrize(("seconds", "sound"), [(100, True), (130, False)])
def test_machines_for_kept_room_are_not_judged_until_they_may_have_started(
    seconds: int, sound: bool
) -> None:
    history = shop()
    spec = {"podTemplateRef": {"name": "web"}, "replicas": 2}
    body = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    group = "autoscaling.x-k8s.io"
    history.store.create("capacitybuffers", body, namespace="default", group=group)
    buy(history, "m1", 2)
    history.wait(300)
    history.store.delete("capacitybuffers", "web", namespace="default", group=group)
    history.wait(seconds)
    buy(history, "m2", 2)
    assert (history.judge() == []) is sound


def test_machines_of_a_pool_that_keeps_a_minimum_are_not_judged() -> None:
    history = shop()
    history.annotate_pool(minimum="{nodes: 2}")
    buy(history, "m1", 2)
    assert history.judge() == []


def test_pods_that_went_while_the_machine_was_written_were_seen() -> None:
    history = shop("a")
    history.store.delete("pods", "a", namespace="default", grace_seconds=0)
    history.wait(1)
    buy(history, "m1", 1)
    assert history.judge() == []


@pytest.mark.parametrize(("kind", "sound"), [("latency", True), ("watcher-cut-off", False)])
def test_only_slow_requests_excuse_an_old_picture(kind: str, sound: bool) -> None:
    history = shop("a")
    history.wait(10)
    history.fault(kind)
    history.store.delete("pods", "a", namespace="default", grace_seconds=0)
    history.wait(30)
    buy(history, "m1", 1)
    assert (history.judge() == []) is sound


def test_a_machine_that_replaces_one_that_is_given_up_is_sound() -> None:
    history = shop("a")
    buy(history, "m1", 1)
    history.delete_machine("m1", by="launcher")
    buy(history, "m2", 1)
    assert history.judge() == []


def test_a_machine_that_is_ready_is_not_counted_again() -> None:
    history = shop("a")
    buy(history, "m1", 1)
    history.status("m1", "i-1", "Launched", "Registered", "Initialized")
    buy(history, "m2", 1)
    assert history.judge() == []


def test_a_machine_whose_node_is_deleted_takes_no_pods_any_more() -> None:
    history = shop("a")
    buy(history, "m1", 1)
    history.status("m1", "i-1", "Launched", "Registered")
    history.store.delete("nodes", history.node("i-1"))
    buy(history, "m2", 1)
    assert history.judge() == []


@pytest.mark.parametrize("conditions", [("Launched", "Registered"), ("Launched",)])
def test_a_machine_whose_node_a_person_cordoned_takes_no_pods_any_more(
    conditions: tuple[str, ...],
) -> None:
    """Also before the machine knows its node (mixed 60237)."""
    history = shop("a")
    buy(history, "m1", 1)
    history.status("m1", "i-1", *conditions)
    node = history.store.get("nodes", history.node("i-1"))
    history.store.update("nodes", {**node, "spec": {**node["spec"], "unschedulable": True}})
    buy(history, "m2", 1)
    assert history.judge() == []


def test_pods_of_a_node_that_leaves_need_another_place() -> None:
    history = shop()
    history.machine("old", "i-1", conditions=("Launched", "Initialized"))
    history.node("i-1")
    history.pod("a", "node-i-1")
    history.wait(10)
    history.delete_machine("old")
    buy(history, "m1", 1)
    assert history.judge() == []


def test_replacements_are_made_for_another_reason() -> None:
    history = shop()
    history.machine("old", "i-1", conditions=("Launched", "Initialized"))
    history.command("old", replacements=("m1",))
    buy(history, "m1", 3)
    assert history.judge() == []


def test_what_daemons_ask_for_is_not_for_pods() -> None:
    history = shop("a")
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}}
    body = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    }
    history.store.create("daemonsets", body, group="apps", namespace="kube-system")
    buy(history, "m1", 2)
    assert history.judge() == []


def orders(turns: int, *, pause: float = 10.0, launched: bool = False) -> list[str]:
    """Machines are ordered and withdrawn, so many times."""
    history = History(OrderedToStay(Launches(Picture())))
    history.pool()
    for number in range(turns + 1):
        name = f"m{number}"
        buy(history, name, 1)
        if launched:
            history.status(name, f"i-{number}", "Launched")
        history.wait(pause)
        history.delete_machine(name, by="scheduler")
    return history.judge()


def test_machines_that_are_ordered_and_withdrawn_all_the_time_are_found() -> None:
    # BAT-08
    (found,) = orders(MOST_TURNS + 1)
    assert found == "NodePool/main: 6 times in 50 s a machine was withdrawn and another ordered"


def test_some_turns_are_sound_and_so_are_rare_ones() -> None:
    assert orders(MOST_TURNS) == []
    assert orders(2 * MOST_TURNS, pause=TURNS_SECONDS / MOST_TURNS + 1) == []


def test_machines_that_run_are_disrupted_and_not_withdrawn() -> None:
    assert orders(3 * MOST_TURNS, launched=True) == []


def choosy(**spec: Any) -> History:
    """A pool that wants what it says."""
    history = History(WantedByPools(Launches(Picture()), Disturbances()))
    history.processes = {"scheduler-0": SimpleNamespace(owner=SimpleNamespace(skew_seconds=0.0))}
    history.pool(**spec)
    history.wait(300)
    return history


def test_a_static_pool_gets_as_many_as_it_says() -> None:
    # GAT-01
    history = choosy(replicas=1)
    buy(history, "m1", 0)
    assert history.judge() == []
    buy(history, "m2", 0)
    assert history.judge() == ["NodeClaim/m2 is one of 2, its pool wants 1"]


def test_what_replaces_a_machine_of_a_static_pool_is_one_more() -> None:
    history = choosy(replicas=1)
    buy(history, "m1", 0, conditions=("Launched", "Registered", "Initialized"), instance_id="i-1")
    history.command("m1", replacements=("m2",))
    buy(history, "m2", 0)
    assert history.judge() == []


def test_replicas_that_were_lowered_a_moment_ago_may_not_have_been_seen() -> None:
    history = choosy(replicas=1)
    history.pool(replicas=0)
    buy(history, "m1", 0)
    assert history.judge() == []
    history.wait(6)
    buy(history, "m2", 0)
    assert len(history.judge()) == 1


@pytest.mark.parametrize(("opens", "sound"), [("0 0 1 1 *", False), ("* * * * *", True)])
def test_a_closed_pool_gets_no_machine(opens: str, sound: bool) -> None:
    history = choosy()
    history.annotate_pool(hours=f'{{schedule: "{opens}", duration: 1h}}')
    history.wait(6)
    buy(history, "m1", 1)
    assert (history.judge() == []) is sound


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
def test_a_pool_without_hours_is_open_however_wrong_the_clock_is(skew: float) -> None:
    # features 113
    history = choosy()
    owner = SimpleNamespace(skew_seconds=skew)
    history.processes = {"scheduler-0": SimpleNamespace(owner=owner)}
    buy(history, "m1", 1)
    assert history.judge() == []
