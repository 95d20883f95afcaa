"""The plan of a run's faults: a function of the seed, over before the calm end, the same when other kinds change."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.faults.fault import Span
from simulation.faults.plan import CALM_SECONDS, faults_of, plan_faults
from simulation.faults.processes import LEASE_SECONDS, WAIT_SECONDS
from simulation.faults.scenarios import KINDS, SCENARIOS

SEEDS = st.integers(0, 2**32)
NAMES = st.sampled_from(sorted(SCENARIOS))


@given(SEEDS, NAMES)
def test_a_seed_always_gives_the_same_plan(seed: int, name: str) -> None:
    plans = [plan_faults(Random(seed), 5, name) for _ in range(2)]
    assert plans[0] == plans[1]


@given(SEEDS, NAMES, st.floats(0.5, 30))
def test_every_fault_begins_and_ends_before_the_calm_end(
    seed: int, name: str, minutes: float
) -> None:
    end = max(0.0, minutes * 60 - CALM_SECONDS)
    for fault in plan_faults(Random(seed), minutes, name):
        assert 0 <= fault.at_seconds <= fault.at_seconds + getattr(fault, "seconds", 0) <= end + 0.1


@given(SEEDS, NAMES)
def test_a_plan_is_in_the_order_of_time_and_can_be_read(seed: int, name: str) -> None:
    plan = plan_faults(Random(seed), 5, name)
    assert [one.at_seconds for one in plan] == sorted(one.at_seconds for one in plan)
    assert all(one.text and one.kind in SCENARIOS[name].per_minute for one in plan)


@given(SEEDS, st.sampled_from(sorted(KINDS)))
def test_leaving_one_kind_out_leaves_the_others_as_they_were(seed: int, kind: str) -> None:
    mixed = SCENARIOS["mixed"]
    without = replace(
        mixed, per_minute={name: rate for name, rate in mixed.per_minute.items() if name != kind}
    )
    expected = [one for one in faults_of(mixed, Random(seed), 5) if one.kind != kind]
    assert faults_of(without, Random(seed), 5) == expected


@pytest.mark.slow
def test_each_kind_happens_in_some_seed_of_some_scenario() -> None:
    met = {
        fault.kind
        for scenario in SCENARIOS
        for seed in range(60)
        for fault in plan_faults(Random(seed), 5, scenario)
    }
    assert met == set(KINDS)


def test_runs_of_the_mixed_scenario_have_different_kinds() -> None:
    kinds = {
        frozenset(one.kind for one in plan_faults(Random(seed), 5, "mixed")) for seed in range(50)
    }
    assert len(kinds) > 40


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_rate_of_a_scenario_is_that_of_a_kind(name: str) -> None:
    assert set(SCENARIOS[name].per_minute) <= set(KINDS)


def test_two_replicas_double_the_processes() -> None:
    assert len(SCENARIOS["two-replicas"].processes()) == 2 * len(SCENARIOS["mixed"].processes())


@given(SEEDS)
def test_nothing_happens_in_the_quiet_scenario(seed: int) -> None:
    assert plan_faults(Random(seed), 60, "quiet") == []


@given(SEEDS, st.floats(2.5, 30))
def test_a_leader_is_stopped_for_longer_than_its_lease(seed: int, minutes: float) -> None:
    """A short stop is another fault: what was read before it may be written after it."""
    stops = [one for one in plan_faults(Random(seed), minutes, "leaders")]
    assert all(one.seconds > LEASE_SECONDS + WAIT_SECONDS for one in stops)  # type: ignore[attr-defined]


def test_a_fault_at_the_very_end_still_has_a_duration() -> None:
    """Seed 2025 of late-lists: a fault of no seconds was refused by the server."""
    assert Span(59.98, 60.0).seconds(Random(1), 2.0, 20.0) > 0.0
