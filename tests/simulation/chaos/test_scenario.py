"""Chaos draws only faults that can strike real processes."""

from __future__ import annotations

from random import Random

from simulation.chaos.run import PEOPLE
from simulation.chaos.scenario import CHAOS
from simulation.faults.fault import SERVERS
from simulation.faults.plan import faults_of
from simulation.faults.scenarios import KINDS
from simulation.users import What, plan_users
from simulation.users.pools import CLASSES

AIMED = {
    "launcher-killed",
    "terminator-killed",
    "killed-in-command",
    "leader-paused",
    "watcher-stopped",
    "aws-denied",
    "ec2-lists-late",
    "launch-lost",
    "launch-contested",
    "launch-unseen",
    "launch-stopped",
    "launch-overtaken",
    "notice-and-kill",
    "notice-refused",
}
"""At one promise, by a scenario of simulated time; the general kinds do the same here."""
IMPOSSIBLE = {
    "clock-skew",
    "clock-jump",
    "redis-failover",
    "disk-full",
    "sqs-repeats",
    "etcd-rollback",
    "never-joins",
    "kubelets-stop",
    "notices-lost",
    "loop-ends",
    "watcher-cut-off",
    "watcher-late",
}


def test_every_rate_is_that_of_a_kind_that_can_strike() -> None:
    assert CHAOS.per_minute.keys() == KINDS.keys() - IMPOSSIBLE - AIMED


def test_some_minutes_replace_machines() -> None:
    """A replacement is waited for: nothing else shows whether a command does that."""
    plans = [plan_users(Random(f"{seed} users"), 5, PEOPLE) for seed in range(1, 11)]
    edits = [
        sum(one.what is What.PATCH and one.kind in CLASSES.values() for one in plan)
        for plan in plans
    ]
    assert sum(edits) >= 2 * len(plans)


def test_half_an_hour_has_many_faults_between_services_and_every_server() -> None:
    plan = faults_of(CHAOS, Random(1), 30)
    assert len(plan) > 200
    cuts = {(one.server, one.when) for one in plan if one.kind == "cut"}  # type: ignore[attr-defined]
    assert cuts == {(server, when) for server in SERVERS for when in ("before", "after")}
