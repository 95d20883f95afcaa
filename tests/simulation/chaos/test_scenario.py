"""Chaos draws only faults that can strike real processes."""

from __future__ import annotations

from random import Random

from simulation.chaos.scenario import CHAOS
from simulation.faults.fault import SERVERS
from simulation.faults.plan import faults_of
from simulation.faults.scenarios import KINDS

IMPOSSIBLE = {
    "clock-skew",
    "clock-jump",
    "redis-failover",
    "disk-full",
    "sqs-repeats",
    "etcd-rollback",
    "never-joins",
    "kubelets-stop",
    "launcher-killed",
    "loop-ends",
    "watcher-cut-off",
    "watcher-late",
}


def test_every_rate_is_that_of_a_kind_that_can_strike() -> None:
    assert CHAOS.per_minute.keys() == KINDS.keys() - IMPOSSIBLE


def test_half_an_hour_has_many_faults_between_services_and_every_server() -> None:
    plan = faults_of(CHAOS, Random(1), 30)
    assert len(plan) > 200
    cuts = {(one.server, one.when) for one in plan if one.kind == "cut"}  # type: ignore[attr-defined]
    assert cuts == {(server, when) for server in SERVERS for when in ("before", "after")}
