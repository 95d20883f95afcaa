"""Budgets of pools and leader election: sound histories pass, each broken one is found."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels
from shared.domain.machines.commands import CommandRecord, written
from shared.domain.pools.nodepools import Budget
from simulation.invariants.disruption import (
    HOUR_SECONDS,
    UndisturbedPods,
    WithinBudgets,
    WithinRate,
    least,
)
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.leases import OneWriterPerEpoch
from simulation.invariants.picture import Picture
from tests.simulation.invariants.builders import NOW, History

HEALTHY = ("Launched", "Registered", "Initialized")


def with_budget(
    count: int, *budgets: dict[str, Any], judge: type[WithinBudgets | WithinRate] = WithinBudgets
) -> History:
    """Machines m1, m2, ... of the pool ``main``, all in service."""
    history = History(judge(Picture(), Disturbances()))
    history.pool(
        disruption={
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "30s",
            "budgets": [*budgets],
        }
    )
    for number in range(1, count + 1):
        history.machine(f"m{number}", f"i-{number}", conditions=HEALTHY)
        history.node(f"i-{number}")
    history.wait(300)
    return history


def test_commands_within_the_budget_are_sound() -> None:
    history = with_budget(5, {"nodes": "2"})
    history.command("m1", id_="c1")
    history.command("m2", id_="c2")
    assert history.judge() == []


def test_a_restored_budget_counts() -> None:
    history = with_budget(5, {"nodes": "1"})
    with history.restored():
        history.pool(disruption={"budgets": [{"nodes": "2"}]})
    history.lease("somebody", 1)
    history.wait(300)
    history.command("m1", id_="c1")
    history.command("m2", id_="c2")
    assert history.judge() == []


def test_a_command_beyond_the_budget_is_found() -> None:
    """DIS-24, EXE-08: those in flight count."""
    history = with_budget(5, {"nodes": "2"})
    history.command("m1", "m2", id_="c1")
    history.command("m3", id_="c2")
    assert history.judge() == [
        "NodePool/main may have 2 machines disrupted and has 3: NodeClaim/m1, NodeClaim/m2, NodeClaim/m3"
    ]


def test_one_command_with_too_many_machines_is_found() -> None:
    # DIS-26
    history = with_budget(5, {"nodes": "1"})
    history.command("m1", "m2")
    assert len(history.judge()) == 1


def test_machines_that_are_being_deleted_still_count() -> None:
    history = with_budget(5, {"nodes": "1"})
    history.command("m1")
    history.delete_machine("m1", by="scheduler")
    history.command("m2", id_="c2")
    assert len(history.judge()) == 1


def test_a_command_that_was_rolled_back_counts_no_more() -> None:
    history = with_budget(5, {"nodes": "1"})
    history.command("m1")
    history.annotate("m1", labels.COMMAND_ANNOTATION, None)
    history.command("m2", id_="c2")
    assert history.judge() == []


def test_a_node_that_is_out_of_service_for_long_counts() -> None:
    """DIS-24; one that broke a moment ago may not have been seen."""
    history = with_budget(5, {"nodes": "1"})
    history.not_ready("node-i-1")
    history.wait(4)
    history.command("m2")
    assert history.judge() == []
    history.wait(2)
    history.command("m3", id_="c2")
    assert len(history.judge()) == 1


def test_after_a_fault_the_mirror_may_be_a_minute_old() -> None:
    history = with_budget(5, {"nodes": "1"})
    history.not_ready("node-i-1")
    history.fault("watcher-cut-off")
    history.wait(60)
    history.command("m2")
    assert history.judge() == []
    history.wait(31)
    history.command("m3", id_="c2")
    assert len(history.judge()) == 1


def test_a_budget_that_was_lowered_a_moment_ago_may_not_have_been_seen() -> None:
    history = with_budget(5, {"nodes": "3"})
    history.pool(disruption={"budgets": [{"nodes": "0"}]})
    history.command("m1")
    assert history.judge() == []
    history.wait(6)
    history.command("m2", id_="c2")
    assert len(history.judge()) == 1


def test_a_halted_pool_is_left_alone() -> None:
    history = with_budget(3, {"nodes": "100%"})
    history.annotate_pool(disruption="off")
    history.wait(100)
    history.command("m1")
    (found,) = history.judge()
    assert found.startswith("NodePool/main may have 0 machines disrupted and has 1")


def with_rate(rate: int) -> History:
    """Five machines of a pool that may lose so many in an hour."""
    history = with_budget(5, {"nodes": "100%"}, judge=WithinRate)
    history.annotate_pool(disruptions_per_hour=str(rate))
    history.wait(100)
    return history


def test_what_commands_hold_and_what_they_took_in_the_last_hour_counts_for_the_rate() -> None:
    # DIS-26
    history = with_rate(2)
    history.command("m1")
    history.delete_machine("m1", by="scheduler")
    history.command("m2", id_="c2")
    assert history.judge() == []
    history.command("m3", id_="c3")
    assert history.judge() == ["NodePool/main may lose 2 machines in an hour and loses 3"]


def test_after_an_hour_the_rate_begins_anew() -> None:
    history = with_rate(1)
    history.command("m1")
    history.delete_machine("m1", by="scheduler")
    history.wait(HOUR_SECONDS + 1)
    history.command("m2", id_="c2")
    assert history.judge() == []


def test_a_redis_that_forgot_its_data_may_count_an_hour_twice() -> None:
    history = with_rate(1)
    history.fault("redis-flush")
    history.command("m1")
    history.command("m2", id_="c2")
    assert history.judge() == []
    history.command("m3", id_="c3")
    assert len(history.judge()) == 1


def test_budgets_for_other_reasons_do_not_hold() -> None:
    """DIS-22; the commands of these tests are for drift."""
    history = with_budget(5, {"nodes": "0", "reasons": ["Empty"]}, {"nodes": "1"})
    history.command("m1")
    assert history.judge() == []


def test_writing_a_record_again_is_no_new_command() -> None:
    history = with_budget(2, {"nodes": "1"})
    history.command("m1")
    history.pool(disruption={"budgets": [{"nodes": "0"}]})
    history.wait(200)
    history.command("m1", replacements=("m9",))
    assert history.judge() == []


@pytest.mark.parametrize(
    ("nodes", "total", "expected"),
    [("10%", 1, 1), ("10%", 11, 2), ("50%", 4, 2), ("3", 100, 3), ("0", 5, 0)],
)
def test_a_percentage_rounds_up(nodes: str, total: int, expected: int) -> None:
    # DIS-22
    assert least([Budget(nodes)], "Drifted", total, NOW) == expected


def test_without_a_budget_there_is_no_limit() -> None:
    assert least([], "Drifted", 10, NOW) == float("inf")
    assert least([Budget("0", schedule="nonsense", duration_seconds=60)], "Drifted", 10, NOW) == 0


def undisturbed(**more: Any) -> History:
    """A machine in service with one pod."""
    history = History(UndisturbedPods(Picture(), Disturbances()))
    history.machine("m1", "i-1", conditions=HEALTHY)
    history.node("i-1")
    history.pod("web-1", "node-i-1", **more)
    return history


MUST_STAY = ["NodeClaim/m1 was taken for Drifted although pod default/web-1 must stay"]


def test_an_ordinary_pod_may_be_moved() -> None:
    history = undisturbed()
    history.wait(120)
    history.command("m1")
    assert history.judge() == []


def test_a_pod_that_must_not_be_disturbed_keeps_its_machine() -> None:
    # DIS-11
    history = undisturbed(annotations={labels.DO_NOT_DISRUPT: "true"})
    history.wait(120)
    history.command("m1")
    assert history.judge() == MUST_STAY


def test_a_pod_that_came_a_moment_ago_was_not_seen() -> None:
    history = undisturbed(annotations={labels.DO_NOT_DISRUPT: "true"})
    history.wait(10)
    history.fault("watcher-cut-off")
    history.wait(60)
    history.command("m1")
    assert history.judge() == []


def empty_command(history: History) -> None:
    """The scheduler takes m1 as an empty machine and deletes it."""
    record = CommandRecord("c1", "emptiness", "Empty", ("NodeClaim/m1",), (), NOW)
    with history.by("scheduler"):
        history.annotate("m1", labels.COMMAND_ANNOTATION, written(record))
    history.delete_machine("m1", by="scheduler")


def test_an_empty_machine_that_got_a_pod_meanwhile_stays() -> None:
    # R5
    history = undisturbed()
    history.wait(3)
    empty_command(history)
    assert history.judge() == [
        "NodeClaim/m1 was deleted as an empty one although pod default/web-1 runs on it"
    ]


def test_a_pod_that_was_bound_while_the_deletion_was_on_its_way_was_not_seen() -> None:
    history = undisturbed()
    history.wait(1)
    empty_command(history)
    assert history.judge() == []


def test_a_pod_of_a_budget_that_lets_nobody_go_keeps_its_machine() -> None:
    history = undisturbed()
    body = {
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    history.store.create("poddisruptionbudgets", body, group="policy", namespace="default")
    history.wait(120)
    history.command("m1")
    assert history.judge() == MUST_STAY


def test_drift_with_a_deadline_takes_machines_all_the_same() -> None:
    # DIS-13
    history = undisturbed(annotations={labels.DO_NOT_DISRUPT: "true"})
    history.machine("m2", "i-2", conditions=HEALTHY, spec={"terminationGracePeriod": "5m"})
    history.node("i-2")
    history.pod("web-2", "node-i-2", annotations={labels.DO_NOT_DISRUPT: "true"})
    history.wait(120)
    history.command("m2")
    assert history.judge() == []


def elected() -> History:
    history = History(OneWriterPerEpoch(Picture()))
    history.lease("a", 0)
    return history


def test_a_holder_that_renews_is_sound() -> None:
    history = elected()
    history.wait(2)
    history.lease("a", 0)
    assert history.judge() == []


def test_a_lease_that_is_given_back_is_free() -> None:
    history = elected()
    history.lease("", 0)
    history.lease("b", 1)
    assert history.judge() == []


def test_a_lease_that_expired_is_taken() -> None:
    history = elected()
    history.wait(15)
    history.lease("b", 1)
    assert history.judge() == []


def test_a_lease_that_is_taken_too_early_is_found() -> None:
    history = elected()
    history.wait(14)
    history.lease("b", 1)
    assert history.judge() == ["b took dovetail-scheduler 14.0 s after a renewed it"]


def test_an_epoch_with_two_holders_is_found() -> None:
    # I9, F14
    history = elected()
    history.wait(15)
    history.lease("b", 0)
    assert history.judge() == ["epoch 0 of dovetail-scheduler has two holders: a, b"]


def test_an_epoch_that_goes_back_is_found() -> None:
    history = elected()
    history.lease("", 0)
    history.lease("b", 5)
    history.lease("", 5)
    history.lease("c", 4)
    assert history.judge() == ["the epoch of dovetail-scheduler went from 5 back to 4"]


def test_other_leases_are_not_judged() -> None:
    history = elected()
    history.lease("x", 3, name="kube-controller-manager")
    history.lease("y", 1, name="kube-controller-manager")
    assert history.judge() == []
