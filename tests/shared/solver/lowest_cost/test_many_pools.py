"""What LowestCost may do is for one plan: many pools share it."""

from __future__ import annotations

import random
import sys
from itertools import count
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.inputs import workloads
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.domain.expressions import Taint, Toleration
from shared.domain.pools.nodepools import PackingPolicy
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.search import Work
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.plan_checker import check_plan
from tests.support.planning.snapshots import plan_for

CPU_MILLI = (100, 250, 500, 900, 1500, 2000, 3500)
LOWEST = SolverSettings(packing_policy=PackingPolicy.LOWEST_COST)


def of_teams(pools: int, pods_of_each: int) -> Snapshot:
    """Pools on AWS with a taint that only the pods of their team tolerate: ten deployments of other sizes in each."""
    draw = random.Random(3)
    pods: list[Pod] = []
    for at in range(pools):
        chosen = (Toleration("team", value=f"team-{at}"),)
        for deployment in range(10):
            cpu = draw.choice(CPU_MILLI)
            memory = cpu * draw.choice((1, 2, 4, 8))
            name = f"team-{at}-{deployment}"
            pods += workloads.replicas(pods_of_each // 10, name, cpu, memory, tolerations=chosen)
    made = tuple(
        workloads.pool(
            f"team-{at}",
            taints=(Taint("team", "NoSchedule", f"team-{at}"),),
            requirements=workloads.general_requirements(),
        )
        for at in range(pools)
    )
    return workloads.snapshot(pods, bundled_catalogue().types, pools=made)


def calls_of(snapshot: Snapshot) -> int:
    """Calls of Python functions in one plan: they are the same on every machine, which time is not."""
    numbers = count()

    def note(_frame: FrameType, event: str, _of: object) -> None:
        if event == "call":
            next(numbers)

    sys.setprofile(note)
    try:
        solve(snapshot, now=0.0, settings=LOWEST)
    finally:
        sys.setprofile(None)
    return next(numbers)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=60))
def test_the_work_grows_with_the_fourth_root_of_the_number_of_pools(pods: list[int]) -> None:
    effort, shares = Effort(200.0), []
    for at, mine in enumerate(pods):
        given = Work(effort, own=200.0, units=8000.0)
        shares.append(given.share(mine, left=sum(pods[at:]), asked=sum(pods)))
        shares[-1].effort.used = shares[-1].effort.most
        effort.spend(shares[-1].effort)
    most = len(pods) ** 0.25 + 1e-9
    assert sum(one.units for one in shares) <= 8000 * most
    assert sum(one.own for one in shares) <= 200 * most
    assert effort.used == pytest.approx(200.0), "the effort of all stages together is used up, once"


def test_a_pool_alone_gets_all_of_it() -> None:
    given = Work(Effort(200.0), own=200.0, units=8000.0)
    assert given.share(7, left=7, asked=7) == given


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_plan_for_sixteen_pools_takes_a_few_times_the_work_of_one() -> None:
    """It was nine times as much when each pool had all of it."""
    one, many = of_teams(1, 50), of_teams(16, 50)
    assert calls_of(many) < 4 * calls_of(one)


@pytest.mark.slow
def test_every_pool_still_gets_a_cheaper_plan() -> None:
    snapshot = of_teams(4, 20)
    plan, fewest = (
        plan_for(snapshot, packing_policy=policy)
        for policy in (PackingPolicy.LOWEST_COST, PackingPolicy.FEWEST_NODES)
    )
    check_plan(plan, snapshot)
    assert plan.cost_micro_usd_per_hour < fewest.cost_micro_usd_per_hour


def test_no_packing_is_begun_once_the_time_is_up() -> None:
    snapshot = of_teams(1, 20)
    looks = len({tuple(pod.requests.items()) for pod in snapshot.pods})
    numbers = count()
    plan = solve(snapshot, now=0.0, settings=LOWEST, time_is_up=lambda: next(numbers) >= looks)
    assert next(numbers) == looks + 1, "a look for each size, and one before LowestCost"
    assert plan.machines == plan_for(snapshot).machines
