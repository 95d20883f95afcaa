"""Chaos draws only faults that can strike real processes."""

from __future__ import annotations

from random import Random

from simulation.chaos.scenario import CHAOS, can_strike
from simulation.faults.network import Cut, Partition
from simulation.faults.plan import faults_of
from simulation.faults.scenarios import KINDS

IMPOSSIBLE = {
    "clock-skew",
    "clock-jump",
    "redis-failover",
    "disk-full",
    "sqs-repeats",
    "etcd-rollback",
    "loop-ends",
    "watcher-cut-off",
    "watcher-late",
}


def test_every_rate_is_that_of_a_kind_that_can_strike() -> None:
    assert CHAOS.per_minute.keys() <= KINDS.keys() - IMPOSSIBLE


def test_the_api_server_has_no_proxy_and_redis_is_only_cut() -> None:
    assert not can_strike(Cut(1.0, "launcher-0", "api", "before"))
    assert not can_strike(Partition(1.0, "launcher-0", "redis", 5.0))
    assert can_strike(Cut(1.0, "launcher-0", "redis", "before"))
    assert can_strike(Partition(1.0, "launcher-0", "aws", 5.0))


def test_half_an_hour_has_many_faults() -> None:
    plan = [one for one in faults_of(CHAOS, Random(1), 30) if can_strike(one)]
    assert len(plan) > 100
