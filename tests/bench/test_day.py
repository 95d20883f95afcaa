"""The benchmark of a day: its days are what they say, and its figures are sums over the whole day."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from bench.over_time.day import REFERENCE, Way, bound, empty_cluster, measure, run
from bench.over_time.days import HOUR, LARGEST_BATCH, SMALLEST_BATCH, START, Day, days
from cli.decisions.replaying.demand import Arrival, Removal, Wish, workload_of
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.domain.workloads.pods import Owner
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import make_pod, real_catalogue
from tests.support.planning.snapshots import plan_for

EMPTY = empty_cluster(real_catalogue())


def small_day(count: int = 30, cpu: str = "1") -> Day:
    """Pods of one deployment for an hour; half of them leave after half an hour."""
    own = Owner("ReplicaSet", "web", "uid-web")
    pods = [make_pod(f"p{n:02d}", cpu=cpu, owner=own, created_at=START) for n in range(count)]
    wishes: list[Wish] = [Arrival(START, pod) for pod in pods]
    wishes += [Removal(START + HOUR / 2, own.uid) for _ in range(count // 2)]
    return Day("small", 1.0, tuple(wishes))


def test_days_are_the_same_each_time() -> None:
    assert days(0.05) == days(0.05)
    assert days(0.05, "another")[0].wishes != days(0.05)[0].wishes
    assert len({day.name for day in days(0.05)}) >= 6


@pytest.mark.parametrize("day", days(0.05), ids=lambda day: day.name)
def test_no_pod_leaves_before_it_has_arrived(day: Day) -> None:
    alive: Counter[str] = Counter()
    for wish in day.wishes:
        assert START <= wish.at < START + day.hours * HOUR
        if isinstance(wish, Arrival):
            assert wish.pod.created_at == wish.at
            alive[workload_of(wish.pod)] += 1
        else:
            alive[wish.workload] -= 1
            assert alive[wish.workload] >= 0


def test_jobs_arrive_in_batches() -> None:
    (day,) = [day for day in days(0.05) if day.name == "jobs"]
    sizes = Counter(wish.at for wish in day.wishes if isinstance(wish, Arrival))
    assert min(sizes.values()) >= SMALLEST_BATCH
    assert max(sizes.values()) <= LARGEST_BATCH


@pytest.mark.slow
@pytest.mark.parametrize("way", [REFERENCE, Way("Balanced", "Global")], ids=lambda way: way.name)
def test_a_day_costs_at_least_the_bound(way: Way) -> None:
    day = small_day(12)
    totals = run(day, way, EMPTY)
    assert len(totals.waits) >= 12
    assert 1 <= totals.most_machines <= totals.launches
    # Machines cost nothing until they are launched, a second after the pods came.
    assert totals.dollars > bound(day, EMPTY) * 0.99


def test_the_bound_follows_the_pods_that_are_wanted() -> None:
    """In half of the samples there are all pods, in the others half of them."""
    whole = bound(Day("all", 1.0, small_day().wishes[:30]), EMPTY)
    assert bound(small_day(), EMPTY) == pytest.approx(whole * 0.75, rel=0.02)


@pytest.mark.slow
def test_rows_are_beside_the_reference() -> None:
    first, second = measure([small_day(12)], (REFERENCE, Way("FewestNodes", "Global")), EMPTY)
    assert first["way"] == REFERENCE.name
    assert first["$ / reference"] == 1.0
    assert float(str(second["$"])) == pytest.approx(
        float(str(first["$"])) * float(str(second["$ / reference"])), rel=0.01
    )


@pytest.mark.slow
@pytest.mark.timeout(300)  # a plan of 25 s, beside whatever else a machine does
def test_a_small_batch_of_many_kinds_costs_at_most_5_percent_more_than_the_bound() -> None:
    (day,) = [day for day in days(0.1) if day.name == "growth"]
    batch = tuple(wish.pod for wish in day.wishes[:40] if isinstance(wish, Arrival))
    snapshot = replace(empty_cluster(bundled_catalogue()), pods=batch)
    plan = plan_for(snapshot, packing_policy="LowestCost", effort=SolverSettings().effort)
    assert plan.lower_bound_micro_usd_per_hour is not None
    assert plan.cost_micro_usd_per_hour <= 1.05 * plan.lower_bound_micro_usd_per_hour
