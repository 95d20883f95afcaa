"""Cluster Autoscaler's rules as settings, and what a scheduler notes for its delays."""

from __future__ import annotations

from typing import Any

from services.scheduler.disruption.scale_down_rules import rules_of
from services.scheduler.state.cluster import View
from shared.disruption.delays import CLUSTER
from shared.domain.pools.generations import V1
from shared.domain.workloads.scale_down import KARPENTERS, ScaleDownRules
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from shared.settings import SchedulerSettings, read
from tests.services.scheduler.conftest import Scheduler
from tests.services.scheduler.disruption.test_commands import POOL as LARGE_POOL
from tests.services.scheduler.disruption.test_commands import begun, oversized, shown
from tests.support.planning.builders import make_pod, make_pool

__all__ = ["oversized"]


def test_no_rule_holds_unless_the_operator_asks() -> None:
    assert rules_of(read(SchedulerSettings, cluster_name="demo")) == KARPENTERS
    settings: dict[str, Any] = {
        "scale_down_utilization_threshold": 0.5,
        "scale_down_delay_after_add": "10m",
        "scale_down_delay_after_delete": "1s",
        "scale_down_delay_after_failure": "3m",
        "scale_down_unneeded_time": "5m",
    }
    assert rules_of(read(SchedulerSettings, cluster_name="demo", **settings)) == ScaleDownRules(
        threshold_percent=50,
        delay_after_add=600.0,
        delay_after_delete=1.0,
        delay_after_failure=180.0,
        unneeded_seconds=300.0,
    )


async def test_a_disruption_that_is_rolled_back_is_noted_for_its_pool(
    oversized: Scheduler, kube: Kube
) -> None:
    await shown(oversized, kube)
    replacement = await begun(oversized, kube)
    assert oversized.commands.changes.seen[CLUSTER].failed == 0
    await kube.patch(NODE_CLAIMS, replacement.name, {"metadata": {"finalizers": None}})
    await kube.delete(NODE_CLAIMS, replacement.name)
    await oversized.hide("machines", replacement.key)
    oversized.view.created.clear()
    await oversized.commands.step()
    seen = oversized.commands.changes.seen
    assert seen[CLUSTER].failed == seen[LARGE_POOL.key].failed > 0


async def test_pods_below_the_cutoff_are_expendable(scheduler: Scheduler) -> None:
    pods = [make_pod("low", priority=-11), make_pod("least", priority=-10), make_pod("usual")]
    await scheduler.show(pods=pods)
    view = View(scheduler.reader, priority_cutoff=-10)
    assert {pod.name for pod in view.pods() if pod.expendable} == {"low"}
    assert not any(pod.expendable for pod in scheduler.view.pods())


async def test_pools_wait_for_the_unneeded_time_and_stay_the_same_objects(
    scheduler: Scheduler,
) -> None:
    fields: dict[str, Any] = {"generation_api": V1, "consolidate_after_seconds": 0.0}
    await scheduler.show(nodepools=[make_pool("a", **fields), make_pool("b", **fields)])
    view = View(scheduler.reader, unneeded_seconds=60.0)
    before = view.pools()
    assert {pool.consolidate_after_seconds for pool in before.values()} == {60.0}
    assert scheduler.view.pools()["NodePool/a"].consolidate_after_seconds == 0
    assert view.pools() is before
    await scheduler.show(nodepools=[make_pool("b", **{**fields, "weight": 5})])
    after = view.pools()
    assert after["NodePool/a"] is before["NodePool/a"]
    assert (after["NodePool/b"].weight, after["NodePool/b"].consolidate_after_seconds) == (5, 60.0)
