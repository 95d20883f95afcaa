"""Disruption in numbers, under the names of both generations (MET-06, deprovisioning_* of MET-12)."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace

from services.scheduler.disruption.reporting import DisruptionReporter
from services.scheduler.state.decisions import DecisionLog
from shared.disruption.methods import drift, emptiness, expiration, multi_node, single_node
from shared.disruption.records import BalancedScore, Candidate, Command
from shared.domain.machines.commands import CommandRecord
from shared.domain.machines.machine import CONSOLIDATABLE, DRIFTED, EXPIRED, INITIALIZED, Condition
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from shared.domain.pools.nodepools import WHEN_EMPTY, WHEN_UNDERUTILIZED, NodePool
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from tests.support.clock.fake import FakeClock
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_machine, make_pool
from tests.support.planning.disruption import make_running


def reporting(metrics: Metrics) -> DisruptionReporter:
    """No event is published here."""
    return DisruptionReporter(cast(Recorder, None), metrics, DecisionLog(FakeClock()))


DISRUPTION, OLD = "karpenter_voluntary_disruption", "karpenter_deprovisioning"


def candidate(name: str, pool: NodePool, *conditions: str, empty: bool = False) -> Candidate:
    running = make_running(name, extra=conditions, pool=pool)
    return Candidate(running.machine, running.node, pool, empty=empty)


def pool(generation_api: str, policy: str = WHEN_UNDERUTILIZED) -> NodePool:
    return make_pool(generation_api=generation_api, consolidation_policy=policy)


@pytest.mark.parametrize(
    ("method", "reason", "old"),
    [
        (emptiness.METHOD, "empty", "emptiness"),
        (drift.METHOD, "drifted", "drift"),
        (expiration.METHOD, "expired", "expiration"),
        (multi_node.METHOD, "underutilized", "consolidation"),
        (single_node.METHOD, "underutilized", "consolidation"),
    ],
)
def test_a_pass_is_measured_by_its_reason_and_its_method(
    method: str, reason: str, old: str
) -> None:
    metrics = Metrics("test")
    for generation in (V1, V1ALPHA5):
        reporting(metrics).pass_done(method, GENERATIONS[generation], seconds=2, late=True)
    reporting(metrics).pass_done(method, GENERATIONS[V1], seconds=2, late=False)
    scraped = Scraped(metrics.text())
    of = {"consolidation_type": method}
    name = f"{DISRUPTION}_decision_evaluation_duration_seconds_sum"
    assert scraped.value(name, reason=reason, **of) == 6
    assert scraped.value(f"{DISRUPTION}_consolidation_timeouts_total", **of) == 2
    name = f"{OLD}_evaluation_duration_seconds_sum"
    assert scraped.value(name, deprovisioner=old) == 2
    assert scraped.value(f"{OLD}_consolidation_timeouts", **of) == 1


def test_moves_of_balanced_pools_are_counted_with_their_scores() -> None:
    """CON-12: the policy Balanced."""
    metrics = Metrics("test")
    moves = [
        BalancedScore("p", 0.2, False),
        BalancedScore("p", 0.4, False),
        BalancedScore("p", 3.0, True),
    ]
    reporting(metrics).balanced_scores(moves)
    scraped = Scraped(metrics.text())
    of = {"nodepool": "p", "policy": "Balanced"}
    for decision, number, total in (("rejected", 2, 0.6), ("approved", 1, 3.0)):
        labels = {"decision": decision, **of}
        assert scraped.value("karpenter_consolidation_moves_total", **labels) == number
        score = scraped.value("karpenter_consolidation_score_sum", **labels)
        assert score == pytest.approx(total)
        assert scraped.value("karpenter_consolidation_score_count", **labels) == number


@pytest.mark.parametrize(("generation", "old"), [(V1, None), (V1ALPHA5, 1)])
def test_a_command_is_counted_once_and_once_for_each_pool(
    generation: str, old: float | None
) -> None:
    """EXE-01: the log line of a command."""
    metrics, of = Metrics("test"), pool(generation)
    other = replace(of, name="other")
    members = (candidate("a", of), candidate("b", of), candidate("c", other))
    reporting(metrics).disrupting(Command(multi_node.METHOD, "Underutilized", members), "id")
    scraped = Scraped(metrics.text())
    labels = {"decision": "delete", "reason": "underutilized"}
    name = f"{DISRUPTION}_decisions_total"
    assert scraped.value(name, consolidation_type="multi-node", **labels) == 1
    pools = scraped.of(f"{DISRUPTION}_decisions_by_nodepool_total", "nodepool")
    assert pools == {"default": 1, "other": 1}
    labels = {"action": "delete", "deprovisioner": "consolidation"}
    assert scraped.value(f"{OLD}_actions_performed", **labels) == old


def test_candidates_are_counted_by_what_may_be_done_with_them() -> None:
    """A Provisioner's by the methods of v0.31: it has no condition Consolidatable."""
    metrics, new, old = Metrics("test"), pool(V1), pool(V1ALPHA5)
    reporting(metrics).eligible(
        [
            candidate("a", new, CONSOLIDATABLE),
            candidate("b", new, CONSOLIDATABLE, DRIFTED, empty=True),
            candidate("c", old),
            candidate("d", old, DRIFTED, EXPIRED, empty=True),
            candidate("e", pool(V1ALPHA5, WHEN_EMPTY)),
        ],
    )
    scraped = Scraped(metrics.text())
    reasons = scraped.of(f"{DISRUPTION}_eligible_nodes", "reason")
    assert reasons == {"empty": 2, "drifted": 2, "underutilized": 1}
    methods = scraped.of(f"{OLD}_eligible_machines", "deprovisioner")
    assert methods == {"emptiness": 1, "drift": 1, "expiration": 1, "consolidation": 1}


def record(*replacements: str) -> CommandRecord:
    return CommandRecord("c0", drift.METHOD, "Drifted", ("Machine/old",), replacements)


def test_the_time_until_a_replacement_was_ready_is_measured() -> None:
    """EXE-04; of Machines alone, and of one that is gone meanwhile nothing."""
    metrics = Metrics("test")
    ready = {INITIALIZED: Condition("True", INITIALIZED, since=190.0)}
    made = [
        make_machine("new", created_at=100.0, conditions=ready),
        make_machine("claim", generation_api=V1, created_at=100.0, conditions=ready),
    ]
    machines = {machine.key: machine for machine in made}
    reporting(metrics).replaced(record("Machine/new", "NodeClaim/claim", "Machine/gone"), machines)
    scraped = Scraped(metrics.text())
    name = f"{OLD}_replacement_machine_initialized_seconds"
    assert (scraped.value(f"{name}_count"), scraped.value(f"{name}_sum")) == (1, 90)


@pytest.mark.parametrize(
    ("key", "unready", "failures", "old"),
    [("Machine/new", 2, 2, 2), ("Machine/new", 0, 1, None), ("NodeClaim/new", 1, 1, None)],
)
def test_replacements_that_never_were_ready_are_counted(
    key: str, unready: int, failures: float, old: float | None
) -> None:
    """EXE-05: a command that failed before it made any is one failure all the same."""
    metrics = Metrics("test")
    reporting(metrics).failed(record(key), "", unready)
    scraped = Scraped(metrics.text())
    assert scraped.value(f"{DISRUPTION}_queue_failures_total") == failures
    name = f"{OLD}_replacement_machine_launch_failure_counter"
    assert scraped.value(name, deprovisioner="drift") == old
