"""Cluster Autoscaler's delays of scale-down, and its cut-off for expendable pods."""

from __future__ import annotations

from typing import Any

import pytest

from services.scheduler.disruption.scale_down_delays import LastChanges, rules_of
from services.scheduler.state.cluster import View
from shared.domain.workloads.scale_down import KARPENTERS
from shared.settings import SchedulerSettings, read
from tests.services.scheduler.conftest import Scheduler
from tests.support.planning.builders import make_machine, make_pod

NOW = 1000.0


def test_nothing_waits_and_no_rule_holds_unless_the_operator_asks() -> None:
    settings = read(SchedulerSettings, cluster_name="demo")
    assert LastChanges(NOW, NOW, NOW).wait(settings, now=NOW) == ""
    assert rules_of(settings) == KARPENTERS
    asked = read(SchedulerSettings, cluster_name="demo", scale_down_utilization_threshold=0.5)
    assert rules_of(asked).threshold_percent == 50


@pytest.mark.parametrize("what", ["add", "delete", "failure"])
def test_each_delay_counts_from_its_own_last_change(what: str) -> None:
    delay: dict[str, Any] = {f"scale_down_delay_after_{what}": 60.0}
    settings = read(SchedulerSettings, cluster_name="demo", **delay)
    field = {"add": "added", "delete": "deleted", "failure": "failed"}[what]
    changes = LastChanges(**{field: NOW})
    assert "30 s ago; the next node goes after 60 s" in changes.wait(settings, now=NOW + 30)
    assert changes.wait(settings, now=NOW + 60) == ""
    assert LastChanges().wait(settings, now=NOW) == ""
    assert changes.wait(settings, now=NOW - 3600) == "", "the clock of its writer was an hour ahead"


def test_machines_tell_when_they_came_and_went_and_that_is_kept() -> None:
    changes = LastChanges()
    changes.note([make_machine(created_at=5.0), make_machine("b", created_at=9.0, deleted_at=20.0)])
    changes.note([make_machine(created_at=5.0)])
    assert (changes.added, changes.deleted) == (9.0, 20.0)


async def test_pods_below_the_cutoff_are_expendable(scheduler: Scheduler) -> None:
    pods = [make_pod("low", priority=-11), make_pod("least", priority=-10), make_pod("usual")]
    await scheduler.show(pods=pods)
    view = View(scheduler.reader, priority_cutoff=-10)
    assert {pod.name for pod in view.pods() if pod.expendable} == {"low"}
    assert not any(pod.expendable for pod in scheduler.view.pods())
