"""The plan of what people do: a function of the seed, within its bounds, and able to lose entries."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.faults import SCENARIOS
from simulation.users.actions import Action, What
from simulation.users.performing import KINDS
from simulation.users.planner import UserSettings
from simulation.users.planning import ACTIONS, LAST_SECONDS, plan_users
from simulation.users.pools import POOLS

BUSY = UserSettings(actions_per_minute=60.0)
ALL = UserSettings(actions_per_minute=60.0, weights=SCENARIOS["features"].users)
BY_HAND = {
    What.DELETE_NODE,
    What.DELETE_MACHINE,
    What.DRAIN_NODE,
    What.CORDON_NODE,
    What.UNCORDON_NODES,
    What.TERMINATE_INSTANCE,
    What.STOP_INSTANCE,
    What.RESERVE,
}


def written(plan: list[Action]) -> str:
    return json.dumps([asdict(action) for action in plan])


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    assert written(plan_users(Random(seed), 5, BUSY)) == written(plan_users(Random(seed), 5, BUSY))


def test_another_seed_gives_another_plan() -> None:
    assert len({written(plan_users(Random(seed), 5, BUSY)) for seed in range(20)}) == 20


@given(st.integers(0, 10_000))
def test_actions_are_in_order_and_none_is_in_the_last_minute(seed: int) -> None:
    times = [action.at_seconds for action in plan_users(Random(seed), 5, BUSY)]
    assert times == sorted(times)
    assert times[-1] <= 5 * 60 - LAST_SECONDS


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_workloads_never_ask_for_more_pods_than_the_run_allows(seed: int) -> None:
    """Jobs and broken workloads come on top; they are small."""
    pods: dict[str, int] = {}
    for action in plan_users(Random(seed), 20, UserSettings(most_pods=50, actions_per_minute=60)):
        if action.kind not in ("deployments", "statefulsets") or "broken" in action.name:
            continue
        if action.what is What.DELETE:
            del pods[action.name]
        elif "replicas" in action.body.get("spec", {}):
            pods[action.name] = action.body["spec"]["replicas"]
        assert sum(pods.values()) <= 50


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_only_what_was_created_is_changed_or_deleted(seed: int) -> None:
    known: set[tuple[str, str]] = set()
    for action in plan_users(Random(seed), 20, ALL):
        if action.what in BY_HAND or action.what is What.DELETE_PODS:
            continue
        assert action.kind in KINDS
        if action.what is What.APPLY:
            known.add((action.kind, action.name))
            assert action.body["metadata"]["name"] == action.name
        else:
            assert (action.kind, action.name) in known


@pytest.mark.slow
def test_every_action_happens_and_every_text_reads() -> None:
    counted: Counter[What] = Counter()
    for seed in range(20):
        for action in plan_users(Random(seed), 20, ALL):
            counted[action.what] += 1
            assert action.text == action.text.strip()
    assert set(counted) == set(What)


def test_a_weight_of_zero_switches_an_action_off() -> None:
    weights = dict.fromkeys(ACTIONS, 0.0) | {"delete node": 1.0}
    plan = plan_users(Random(1), 5, UserSettings(actions_per_minute=60, weights=weights))
    later = [action.what for action in plan if 8 < action.at_seconds < 220]
    assert set(later) == {What.DELETE_NODE}


def test_both_generations_get_pools_and_classes() -> None:
    kinds = {action.kind for action in plan_users(Random(3), 0, UserSettings())}
    assert {"nodepools", "provisioners", "ec2nodeclasses", "awsnodetemplates"} <= kinds


@given(st.integers(0, 1_000))
def test_in_the_end_no_pool_lets_its_machines_expire(seed: int) -> None:
    """A cluster that replaces its machines for ever never comes to rest."""
    plan = plan_users(Random(seed), 5, BUSY)
    pools = {"nodepools", "provisioners"}
    living: set[str] = set()
    for action in plan:
        if action.kind in pools and "broken" not in action.name:
            change = living.discard if action.what is What.DELETE else living.add
            change(action.name)
    last = [action for action in plan if action.at_seconds == plan[-1].at_seconds]
    assert {action.name for action in last} == living
    assert all("xpire" in action.text for action in last)


@pytest.mark.parametrize("seed", range(3))
def test_in_the_end_pools_whose_limits_were_tightened_have_room(seed: int) -> None:
    """Nothing happens after that, so a pod that waits for room has to be looked at again without an occasion."""
    weights = SCENARIOS["limits"].users
    plan = plan_users(Random(seed), 5, UserSettings(actions_per_minute=40.0, weights=weights))
    last = {
        one.name: one.body["spec"]["limits"]
        for one in plan
        if one.what is What.PATCH and one.kind in POOLS.values() and "limits" in one.body["spec"]
    }
    assert last
    assert all(limits.get("resources", limits)["cpu"] == "1000" for limits in last.values())


@given(st.integers(0, 10_000))
def test_no_room_is_kept_in_the_end(seed: int) -> None:
    """What is left without pods then is what nobody needs."""
    kept: set[str] = set()
    for action in plan_users(Random(seed), 5, ALL):
        if action.kind == "capacitybuffers" and action.what is What.APPLY:
            kept.add(action.name)
        if action.kind == "capacitybuffers" and action.what is What.DELETE:
            kept.remove(action.name)
    assert kept == set()
