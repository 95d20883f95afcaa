"""A replayed period leaves out work that cannot change anything: it ends as the period in which all of it is done."""

from __future__ import annotations

from typing import Any

import pytest

from bench.inputs.clusters import NOW
from bench.over_time.days import HOUR
from bench.over_time.recorded_day import recorded_day
from cli.decisions.replaying.cluster import Cluster, Totals
from cli.decisions.replaying.timeline import Rules, Timeline
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.methods import consolidation, multi_node, single_node
from shared.disruption.removals.prepared import Preparing
from shared.domain.feature_gates import FeatureGates
from shared.domain.pools.generations import V1
from shared.simulation.decisions.records import PassQuestion, PlanQuestion
from shared.solver.solve import SolverSettings

BOOT_SECONDS = 60.0


class LookingAtAll(Timeline):
    """Notes conditions at every look."""

    def _look(self) -> None:
        self._due = float("-inf")
        self._noted.clear()
        super()._look()


def course(nodes: int, hours: float, of: type[Timeline] = Timeline, **settings: Any) -> Totals:
    day = recorded_day(bundled_catalogue(), nodes, hours)
    solver = SolverSettings(**settings)
    asked = PassQuestion(NOW, V1, solver, FeatureGates(), "Karpenter", Churn())
    rules = Rules(PlanQuestion(NOW, solver), (asked,), BOOT_SECONDS)
    return of(Cluster(day.start, NOW), rules, NOW + hours * HOUR).run(day.wishes)


def all_of_it(monkeypatch: pytest.MonkeyPatch, nodes: int, hours: float, **settings: Any) -> Totals:
    """No bounds, and a plan of the whole cluster for each removal."""
    for method in (single_node, multi_node):
        monkeypatch.setattr(method, "compute", consolidation.by_simulation)
    monkeypatch.setattr(Preparing, "of", lambda *_: None)
    return course(nodes, hours, LookingAtAll, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "hours", "policy"),
    [
        (12, 0.4, "FewestNodes"),
        pytest.param(60, 3.0, "FewestNodes", marks=pytest.mark.nightly),
        pytest.param(30, 1.0, "LowestCost", marks=pytest.mark.nightly),
    ],
)
def test_the_totals_are_those_of_doing_everything(
    monkeypatch: pytest.MonkeyPatch, nodes: int, hours: float, policy: str
) -> None:
    """Dollars, node-seconds, each pod's waiting time, evictions and launches, to the last digit."""
    quick = course(nodes, hours, packing_policy=policy)
    assert quick.launches > 0
    assert quick.evictions > 0
    assert quick == all_of_it(monkeypatch, nodes, hours, packing_policy=policy)
