"""Gangs are placed whole or not at all, and one that is refused keeps no room (SCH-114)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import (
    amounts,
    make_bound_pod,
    make_node,
    make_pod,
    make_pool,
    make_snapshot,
)


def planned(snapshot: Snapshot, **settings_: Any) -> Plan:
    return solve(snapshot, now=0.0, settings=SolverSettings(**settings_))


def gang(name: str, count: int, cpu: str = "1", size: int = 0) -> list[Pod]:
    return [make_pod(f"{name}-{i}", cpu=cpu, gang=name, gang_size=size) for i in range(count)]


def limited(cpu: int) -> dict[str, Any]:
    return {"pools": (make_pool(limits=amounts(cpu=str(cpu))),)}


def placed(plan: Plan) -> set[str]:
    found = {uid for machine in plan.machines for uid in machine.pods}
    return found | {uid for uids in plan.existing.values() for uid in uids}


def test_a_gang_that_fits_is_bought_whole() -> None:
    plan = planned(make_snapshot(*gang("train", 4, "3")))
    assert len(placed(plan)) == 4
    assert plan.unschedulable == {}


def test_a_gang_that_finds_no_whole_place_buys_nothing_and_says_so() -> None:
    """One pod too large: nothing is bought for the other three."""
    pods = [*gang("train", 3), make_pod("train-big", cpu="500", gang="train")]
    plan = planned(make_snapshot(*pods))
    assert plan.machines == ()
    assert len(plan.unschedulable) == 4
    for text in plan.unschedulable.values():
        assert text.startswith(
            'gang "default/train": 1 of its 4 pods find no place, so none is placed: '
        )
        assert "no instance type has enough resources" in text


def test_a_refused_gang_leaves_its_room_to_others() -> None:
    """On a node of 4 CPUs three of four pods of the gang would fit; the single pod gets the room."""
    pods = [*gang("train", 4, "1300m"), make_pod("single", cpu="2")]
    plan = planned(make_snapshot(*pods, nodes=(make_node("n1"),), pools=()))
    assert placed(plan) == {"uid-single"}


def test_of_two_gangs_that_do_not_fit_together_one_is_whole() -> None:
    plan = planned(make_snapshot(*gang("a", 3), *gang("b", 3), **limited(4)))
    assert placed(plan) == {"uid-a-0", "uid-a-1", "uid-a-2"}
    assert plan.cost_micro_usd_per_hour == 4 * 48_000


def test_a_gang_waits_until_all_its_pods_are_there() -> None:
    plan = planned(make_snapshot(*gang("train", 3, size=4)))
    assert plan.machines == ()
    (text,) = set(plan.unschedulable.values())
    assert text.startswith('gang "default/train": 1 of its 4 pods do not exist yet')
    unseen = make_pod("train-late", gang="train", unschedulable=False)
    assert planned(make_snapshot(*gang("train", 3), unseen)).machines == ()


def test_a_pod_of_a_gang_that_runs_is_placed_alone() -> None:
    """One that was evicted comes back."""
    running = [make_bound_pod(f"train-{i}", "n1", gang="train", gang_size=4) for i in range(2)]
    again = make_pod("train-new", gang="train", gang_size=4)
    plan = planned(make_snapshot(*running, again, nodes=(make_node("n1"),)))
    assert placed(plan) == {"uid-train-new"}


def test_gangs_of_the_same_name_in_two_namespaces_are_two() -> None:
    other = make_pod("big", cpu="500", gang="train", namespace="other")
    plan = planned(make_snapshot(*gang("train", 2), other))
    assert placed(plan) == {"uid-train-0", "uid-train-1"}


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    cpus=st.lists(st.sampled_from(["500m", "1", "3", "7"]), min_size=4, max_size=4),
    single=st.integers(0, 3),
    limit=st.integers(1, 20),
    policy=st.sampled_from(["FewestNodes", "LowestCost"]),
)
@settings(max_examples=60, deadline=None)
def test_whatever_the_limits_no_gang_is_split(
    sizes: list[int], cpus: list[str], single: int, limit: int, policy: str
) -> None:
    """And every pod is placed or has a verdict."""
    pods = [pod for i, size in enumerate(sizes) for pod in gang(f"g{i}", size, cpus[i])]
    pods += [make_pod(f"single-{i}") for i in range(single)]
    plan = planned(
        make_snapshot(*pods, nodes=(make_node("n1", cpu="2"),), **limited(limit)),
        packing_policy=policy,
    )
    there = placed(plan)
    assert there | set(plan.unschedulable) == {pod.uid for pod in pods}
    for i, size in enumerate(sizes):
        assert len({f"uid-g{i}-{n}" for n in range(size)} & there) in (0, size)
