"""Emptiness, expiration and drift: which machines are disrupted, and in what order (DIS-30..34, DIS-60..62, DRF-06)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.disruption.methods import drift, emptiness, expiration
from shared.disruption.pod_blocks import ANNOTATED
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import DRIFTED, EMPTY, Condition
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_EMPTY, WHEN_UNDERUTILIZED, Budget, NodePool
from shared.domain.pools.usage import Counting
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import make_bound_pod, make_pool
from tests.support.planning.disruption import (
    NOW,
    Running,
    conditions,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)

DRIFT_ON = FeatureGates(drift=True)


def v1_pool(**changes: Any) -> NodePool:
    fields: dict[str, Any] = {"generation_api": V1, "consolidate_after_seconds": 0.0}
    return make_pool(**{**fields, **changes})


def ttl_pool(**changes: Any) -> NodePool:
    """ttlSecondsAfterEmpty: 30."""
    fields = {"consolidation_policy": WHEN_EMPTY, "consolidate_after_seconds": 30.0}
    return make_pool(**{**fields, **changes})


def names(proposal: Any) -> list[list[str]]:
    return [[c.node.name for c in command.candidates] for command in proposal.commands]


def marked_empty(name: str, seconds: float, pool: NodePool) -> Running:
    found = make_running(name, pool=pool)
    marks = {**found.machine.conditions, EMPTY: Condition("True", since=NOW - seconds)}
    return found._replace(machine=replace(found.machine, conditions=marks))


def test_all_empty_machines_whose_time_is_up_go_in_one_command() -> None:
    """Under every consolidation policy (DIS-30, DIS-31)."""
    pool = v1_pool(consolidation_policy=WHEN_UNDERUTILIZED)
    cluster = [make_running(name, pool=pool) for name in ("a", "b", "c")]
    world = make_world(make_cluster(cluster, *pods_on("b", 1), pools=(pool,)))
    proposal = emptiness.propose(world)
    assert names(proposal) == [["a", "c"]]
    assert proposal.commands[0].decision == "delete"
    assert proposal.commands[0].saving_micro_usd_per_hour == 2 * 4 * 48_000


def test_consolidate_after_never_keeps_empty_machines() -> None:
    pool = v1_pool(consolidate_after_seconds=None)
    assert not emptiness.propose(
        make_world(make_cluster([make_running(pool=pool)], pools=(pool,)))
    ).commands


def test_an_empty_machine_waits_for_its_consolidate_after() -> None:
    pool = v1_pool(consolidate_after_seconds=60.0)
    young = make_running(pool=pool, extra=())
    assert not emptiness.propose(make_world(make_cluster([young], pools=(pool,)))).commands


def test_budgets_cap_how_many_go_at_once() -> None:
    """DIS-26; ACC-67: 10 % of one machine allows one."""
    pool = v1_pool(budgets=(Budget("10%"),))
    one = make_world(make_cluster([make_running("a", pool=pool)], pools=(pool,)))
    assert names(emptiness.propose(one)) == [["a"]]
    many = [make_running(f"n{i:02d}", pool=pool) for i in range(11)]
    assert names(emptiness.propose(make_world(make_cluster(many, pools=(pool,))))) == [
        ["n00", "n01"]
    ]


def test_a_bad_schedule_allows_nothing() -> None:
    """DIS-23: schedules of budgets; ACC-67: budgets of a percentage."""
    pool = v1_pool(budgets=(Budget("10", schedule="every monday", duration_seconds=60.0),))
    assert not emptiness.propose(
        make_world(make_cluster([make_running(pool=pool)], pools=(pool,)))
    ).commands


def test_the_ttl_of_v1alpha5_counts_from_the_mark() -> None:
    """DIS-32: time after empty; ACC-28: an empty node goes after its time."""
    pool = ttl_pool()
    cluster = [
        marked_empty("due", 30, pool),
        marked_empty("young", 29, pool),
        make_running("unmarked", pool=pool),
    ]
    assert names(emptiness.propose(make_world(make_cluster(cluster, pools=(pool,))))) == [["due"]]


def test_a_ttl_never_removes_a_node_with_pods() -> None:
    """DIS-34: ACC-30, first half."""
    pool = ttl_pool()
    world = make_world(make_cluster([marked_empty("a", 99, pool)], *pods_on("a", 1), pools=(pool,)))
    assert not emptiness.propose(world).commands


def test_with_consolidation_on_an_empty_v1alpha5_machine_waits_for_nothing() -> None:
    """CON-13: consolidation of a Provisioner's machines."""
    pool = make_pool(consolidation_policy=WHEN_UNDERUTILIZED, consolidate_after_seconds=0.0)
    assert names(
        emptiness.propose(make_world(make_cluster([make_running("a", pool=pool)], pools=(pool,))))
    ) == [["a"]]


def test_a_daemon_that_must_not_be_disturbed_holds_an_empty_node() -> None:
    pool = v1_pool()
    daemon = make_bound_pod("d", "n1", do_not_disrupt="true", phase="Running")
    world = make_world(make_cluster([make_running(pool=pool)], daemon, pools=(pool,)))
    proposal = emptiness.propose(
        replace(world, candidates=tuple(replace(c, empty=True) for c in world.candidates))
    )
    assert not proposal.commands
    assert [r.text for r in proposal.rejections] == [ANNOTATED]


def test_v1_expires_by_the_machines_own_age_without_asking_anybody() -> None:
    """Expiration does not wait for initialisation (DIS-60, DIS-62, ACC-80)."""
    pool = v1_pool()
    old, never, young = (
        make_running(name, pool=pool, expire_seconds=seconds, extra=())
        for name, seconds in (("old", 7100.0), ("never", None), ("young", 7300.0))
    )
    unborn = replace(old.machine, conditions={}, uid="u2", name="unborn", expire_seconds=3600.0)
    machines = [young.machine, never.machine, old.machine, unborn]
    assert [m.name for m in expiration.forceful(machines, now=NOW)] == ["unborn", "machine-old"]


def test_v1alpha5_replaces_the_oldest_expired_machine_first() -> None:
    """DIS-61: expiration of a Provisioner's machines; ACC-31: a node past its age is replaced."""
    pool = make_pool(expire_seconds=3600.0)
    cluster = [make_running("a", pool=pool), make_running("b", pool=pool, created_at=NOW - 9000)]
    pods = (*pods_on("a", 6), *pods_on("b", 6))
    proposal = expiration.propose(make_world(make_cluster(cluster, *pods, pools=(pool,))))
    assert names(proposal) == [["b"]]
    assert len(proposal.commands[0].replacements) == 1
    assert proposal.commands[0].moved_pods == 6
    assert not expiration.forceful([one.machine for one in cluster], now=NOW)


def test_an_expired_node_with_a_do_not_evict_pod_stays() -> None:
    """ACC-35: a pod that must not be evicted."""
    pool = make_pool(expire_seconds=3600.0)
    pods = pods_on("n1", 1, do_not_disrupt="true")
    proposal = expiration.propose(
        make_world(make_cluster([make_running(pool=pool)], *pods, pools=(pool,)))
    )
    assert not proposal.commands
    assert [(r.text, r.pod) for r in proposal.rejections] == [(ANNOTATED, "default/n1-pod-0")]


def drifted(name: str, pool: NodePool, seconds: float = 60, **changes: Any) -> Running:
    found = make_running(name, pool=pool, **changes)
    marks = {**found.machine.conditions, **conditions(DRIFTED, since=NOW - seconds)}
    return found._replace(machine=replace(found.machine, conditions=marks))


def test_drift_takes_empty_machines_first_then_the_one_that_drifted_first() -> None:
    """The machine that drifted first is replaced first (DRF-06)."""
    pool = v1_pool()
    cluster = [drifted("late", pool, 10), drifted("early", pool, 90), drifted("empty", pool, 5)]
    pods = (*pods_on("late", 6), *pods_on("early", 6))
    snapshot = make_cluster(cluster, *pods, pools=(pool,))
    assert names(drift.propose(make_world(snapshot))) == [["empty"]]
    full = make_cluster(cluster[:2], *pods, pools=(pool,))
    assert names(drift.propose(make_world(full))) == [["early"]]


def test_drift_goes_on_at_the_limit_one_machine_after_the_other() -> None:
    """SCH-100: the replacement has the room of what it replaces; a drain that hangs stops the next command, not the
    first one, so that the pool never doubles."""
    pool = v1_pool(limits={"nodes": 2}, budgets=(Budget("100%"),))
    cluster = [drifted("a", pool, 90), drifted("b", pool, 10)]
    pods = (*pods_on("a", 6, cpu="1"), *pods_on("b", 6, cpu="1"))
    assert names(drift.propose(make_world(make_cluster(cluster, *pods, pools=(pool,))))) == [["a"]]
    draining = make_running("old", pool=pool, terminating=True)
    snapshot = make_cluster([*cluster[:1], draining, make_running("new", pool=pool)], *pods[:6],
                            *pods_on("new", 6, cpu="1"), pools=(pool,))  # fmt: skip
    refused = drift.propose(make_world(snapshot))
    assert not refused.commands
    assert "node limits have been exhausted" in refused.rejections[0].text
    karpenter = SolverSettings(counting=Counting(terminating=False))
    assert drift.propose(make_world(snapshot, solver=karpenter)).commands


def test_drift_of_machines_needs_its_gate() -> None:
    """v1 machines need no feature gate (DRF-08, OPS-05)."""
    pool = make_pool()
    snapshot = make_cluster([drifted("a", pool)], pools=(pool,))
    assert not drift.propose(make_world(snapshot)).commands
    assert names(drift.propose(make_world(snapshot, gates=DRIFT_ON))) == [["a"]]


@pytest.mark.parametrize(("grace", "goes"), [(None, False), (600.0, True)])
def test_an_end_of_the_drain_lets_drift_pass_pods_that_hold(
    grace: float | None, goes: bool
) -> None:
    """What blocks drift (DIS-13)."""
    pool = v1_pool()
    held = pods_on("a", 1, do_not_disrupt="true")
    machine = drifted("a", pool, termination_grace_seconds=grace)
    proposal = drift.propose(make_world(make_cluster([machine], *held, pools=(pool,))))
    assert bool(proposal.commands) is goes


def test_a_pod_that_fits_nowhere_else_keeps_its_drifted_node() -> None:
    pool = v1_pool()
    giant = pods_on("a", 1, cpu="500")
    proposal = drift.propose(make_world(make_cluster([drifted("a", pool)], *giant, pools=(pool,))))
    assert not proposal.commands
    assert proposal.rejections[0].text.startswith("not all pods would schedule, ")


def test_pods_do_not_move_to_a_node_that_is_not_ready_to_work() -> None:
    """CON-03: pods that a consolidation must place."""
    pool = v1_pool()
    young = make_running("young", "m5.x128", pool=pool, extra=())
    young = young._replace(
        machine=replace(young.machine, conditions={}),
        node=replace(
            young.node,
            labels={k: v for k, v in young.node.labels.items() if "initialized" not in k},
        ),
    )
    cluster = make_cluster([drifted("a", pool), young], *pods_on("a", 1), pools=(pool,))
    proposal = drift.propose(make_world(cluster))
    assert [r.text for r in proposal.rejections] == [
        "would schedule against uninitialized node young"
    ]
