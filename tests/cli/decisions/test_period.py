"""A recorded period with other settings: the same pods come and go, in simulated time; both courses are compared."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from cli.decisions.replaying.cluster import Cluster, Totals
from cli.decisions.replaying.demand import Arrival, Removal, Wish, demand
from cli.decisions.replaying.period import facts
from cli.decisions.replaying.timeline import DRAIN_SECONDS, Rules, Timeline
from cli.main import commands
from shared.concurrency.clock import rfc3339
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.records import Command
from shared.domain.feature_gates import FeatureGates
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.domain.records import NODE_POOLS
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Owner, Pod
from shared.domain.workloads.scale_down import KARPENTERS, ScaleDownRules
from shared.errors import NotFound
from shared.runtime.archive.reading import Seen
from shared.runtime.archive.store import DirectoryStore
from shared.simulation.decisions.records import PassQuestion, PlanQuestion
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import (
    make_bound_pod,
    make_node_class,
    make_pod,
    make_pool,
    make_snapshot,
)
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import Day

WEB = Owner("ReplicaSet", "web", "uid-web")
BOOT = 60.0
HOUR = 3600.0


def seen(at: float, pod: Pod, *, gone: bool = False) -> Seen:
    return Seen(at, "pods", pod.key, None if gone else msgspec.json.encode(pod))


def kinds(wishes: list[Wish]) -> list[tuple[str, float]]:
    return [(type(one).__name__, one.at) for one in wishes]


def test_pods_that_come_and_go_are_demand() -> None:
    old, new = make_bound_pod("old", "n1", owner=WEB), make_pod("new")
    wishes = demand([old], [seen(5, new), seen(9, old, gone=True), seen(12, new, gone=True)])
    assert kinds(wishes) == [("Arrival", 5), ("Removal", 9), ("Removal", 12)]


def test_a_pod_that_was_evicted_and_made_anew_is_no_demand() -> None:
    old, new = make_bound_pod("old", "n1", owner=WEB), make_pod("new", owner=WEB)
    leaving = replace(old, terminating=True)
    assert demand([old], [seen(5, leaving), seen(6, new), seen(40, leaving, gone=True)]) == []


def test_a_workload_that_grows_again_later_is_demand() -> None:
    old, new = make_bound_pod("old", "n1", owner=WEB), make_pod("new", owner=WEB)
    wishes = demand([old], [seen(5, old, gone=True), seen(300, new)])
    assert kinds(wishes) == [("Removal", 5), ("Arrival", 300)]


def test_daemons_finished_pods_and_changes_of_a_pod_are_no_demand() -> None:
    daemon = make_pod("d", owner=Owner("DaemonSet", "d", "uid-d"))
    pod = make_pod("p")
    bound = replace(pod, node_name="n1", unschedulable=False)
    done = replace(make_pod("job"), phase="Succeeded")
    assert demand([pod], [seen(1, daemon), seen(2, bound), seen(3, done)]) == []


def empty(**changes: Any) -> Snapshot:
    pool = make_pool(consolidation_policy="WhenUnderutilized", consolidate_after_seconds=0.0)
    return make_snapshot(pools=(pool,), node_classes=(make_node_class(),), **changes)


def rules(**settings: Any) -> Rules:
    solver = SolverSettings(**settings)
    asked = PassQuestion(NOW, "v1alpha5", solver, FeatureGates(), "Karpenter", Churn())
    return Rules(PlanQuestion(NOW, solver), (asked,), BOOT)


def course(wishes: list[Wish], hours: float, start: Snapshot | None = None, **how: Any) -> Totals:
    cluster = Cluster(start or empty(), NOW)
    return Timeline(cluster, rules(**how), NOW + hours * HOUR).run(wishes)


def arrivals(count: int, at: float = NOW, **changes: Any) -> list[Wish]:
    made = {"owner": WEB, **changes}
    return [Arrival(at, make_pod(f"p{at:.0f}-{n}", created_at=at, **made)) for n in range(count)]


def test_pods_wait_for_the_node_that_is_launched_for_them() -> None:
    found = course(arrivals(3, cpu="1"), 1.0)
    assert found.launches == 1
    assert found.waits == [pytest.approx(BOOT + 1.0)] * 3
    assert found.evictions == 0
    assert found.dollars > 0
    assert found.node_seconds == pytest.approx(HOUR - 1.0)


def test_pods_keep_the_machine_that_was_launched_for_them() -> None:
    """A larger pod comes while it boots, which a new plan for all of them would place first (POD-01)."""
    later = arrivals(1, NOW + 20.0, cpu="3", owner=Owner("ReplicaSet", "b", "uid-b"))
    found = course([*arrivals(3, cpu="1"), *later], 0.025)
    assert found.launches == 2
    assert found.waits == [pytest.approx(BOOT + 1.0)] * 4
    assert found.most_machines == 2


def test_a_machine_costs_until_its_instance_has_ended() -> None:
    """Its pods go after half an hour; an empty machine goes with the next pass."""
    gone: list[Wish] = [Removal(NOW + HOUR / 2, WEB.uid)] * 3
    found = course([*arrivals(3, cpu="1"), *gone], 1.0)
    assert found.node_seconds < HOUR / 2 + 60.0 + DRAIN_SECONDS
    assert found.evictions == 0


def test_consolidation_moves_pods_and_saves() -> None:
    """Two machines, each nearly empty after the removals: what is left fits on one."""
    wishes = [
        *arrivals(15, cpu="1"),
        *arrivals(15, NOW + 300, cpu="1", owner=Owner("ReplicaSet", "b", "uid-b")),
        *([Removal(NOW + 900, WEB.uid)] * 13),
        *([Removal(NOW + 900, "uid-b")] * 13),
    ]
    found = course(wishes, 2.0)
    assert found.evictions > 0
    still = course(wishes, 2.0, empty_of_consolidation())
    assert still.evictions == 0
    assert found.dollars < still.dollars


class Noting(Timeline):
    """Notes when commands were proposed."""

    def _propose(self, command: Command, asked: PassQuestion) -> None:
        noted.append(self.cluster.now)
        super()._propose(command, asked)


noted: list[float] = []


def test_no_command_is_looked_for_while_one_waits_for_its_second_look() -> None:
    """Pods go one by one, so the cluster is another one at each pass."""
    owners = [Owner("ReplicaSet", f"r{n}", f"uid-r{n}") for n in range(6)]
    wishes: list[Wish] = [
        wish
        for n, owner in enumerate(owners)
        for wish in arrivals(1, NOW + 300.0 * n, cpu="12", owner=owner)
    ]
    wishes += [Removal(NOW + 3000.0 + 6 * n, one.uid) for n, one in enumerate(owners)]
    noted.clear()
    pool = make_pool(
        generation_api=V1,
        consolidation_policy=WHEN_UNDERUTILIZED,
        consolidate_after_seconds=0.0,
        budgets=(Budget("1"),),
    )
    asked = PassQuestion(NOW, V1, SolverSettings(), FeatureGates(), "Karpenter", Churn())
    course_rules = Rules(PlanQuestion(NOW, SolverSettings()), (asked,), BOOT)
    classes = (make_node_class(generation_api=V1),)
    start = replace(empty(), pools=(pool,), node_classes=classes)
    Noting(Cluster(start, NOW), course_rules, NOW + HOUR).run(wishes)
    assert len(noted) > 2
    assert all(later - one >= 15.0 for one, later in pairwise(noted))


def test_a_delay_of_the_pool_and_the_unneeded_time_of_the_cluster_hold_in_a_period_too() -> None:
    """An empty machine goes ten minutes after it was created, or after its pod left."""
    wishes = [*arrivals(1, cpu="1"), Removal(NOW + 120.0, WEB.uid)]
    fields: dict[str, Any] = {
        "generation_api": V1,
        "consolidation_policy": WHEN_UNDERUTILIZED,
        "consolidate_after_seconds": 0.0,
        "budgets": (Budget("1"),),
    }
    classes = (make_node_class(generation_api=V1),)

    def paid_seconds(rules: ScaleDownRules = KARPENTERS, **changes: Any) -> float:
        pool = make_pool(**{**fields, **changes})
        asked = PassQuestion(NOW, V1, SolverSettings(), FeatureGates(), "Karpenter", Churn())
        how = Rules(PlanQuestion(NOW, SolverSettings()), (replace(asked, rules=rules),), BOOT)
        start = replace(empty(), pools=(pool,), node_classes=classes)
        return Timeline(Cluster(start, NOW), how, NOW + HOUR).run(wishes).node_seconds

    assert 100.0 < paid_seconds() < 200.0
    assert 600.0 < paid_seconds(delay_after_add=600.0) < 660.0
    assert 600.0 < paid_seconds(ScaleDownRules(delay_after_add=600.0)) < 660.0
    assert 700.0 < paid_seconds(ScaleDownRules(unneeded_seconds=600.0)) < 780.0


def empty_of_consolidation() -> Snapshot:
    return replace(empty(), pools=(make_pool(consolidate_after_seconds=None),))


def test_a_pod_that_no_plan_places_waits_to_the_end() -> None:
    found = course(arrivals(1, cpu="4000"), 1.0)
    assert found.waits == [HOUR]
    assert (found.launches, found.dollars) == (0, 0.0)


def test_the_same_period_has_the_same_totals_every_time() -> None:
    wishes = [*arrivals(10, cpu="1"), *([Removal(NOW + 900, WEB.uid)] * 5)]
    assert course(wishes, 1.0) == course(wishes, 1.0)


def test_with_nothing_to_compare_the_shares_are_zero() -> None:
    assert facts(Totals())["waiting p99, s"] == 0.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made day."""
    made = tmp_path_factory.mktemp("period")
    asyncio.run(Day(DirectoryStore(made), 5).run(20))
    return made


def test_a_period_that_begins_without_pools_is_refused(tmp_path: Path) -> None:
    """Both columns would be zero: nothing could be bought in either course."""
    day = Day(DirectoryStore(tmp_path), 5)
    day.drop(NODE_POOLS, day.pool.key)
    asyncio.run(day.run(2))
    words = ["replay", "--from", rfc3339(NOW), "--with", "policy=LowestCost"]
    done = CliRunner().invoke(commands, [*words, "--store", str(tmp_path)])
    assert isinstance(done.exception, NotFound)
    assert "give a later --from, or pools by --with-file" in done.exception.message


@pytest.mark.slow
def test_the_command_compares_both_courses(folder: Path) -> None:
    words = ("replay", "--from", rfc3339(NOW), "--with", "policy=LowestCost")
    done = CliRunner().invoke(commands, [*words, "--store", str(folder), "-o", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["pods"] > 10
    assert found["recorded"].keys() == found["changed"].keys()
    assert 0 < found["changed"]["$"] <= found["recorded"]["$"]
    table = CliRunner().invoke(commands, [*words, "--store", str(folder)])
    assert "Both columns are simulated." in table.stdout
