"""Disruption in numbers, under the metric names of both generations (MET-06, deprovisioning_* of MET-12)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from services.scheduler.disruption.methods import CONSOLIDATIONS
from shared.disruption.methods import drift, emptiness, expiration, rebalance, static_drift
from shared.disruption.records import EXPIRED as EXPIRED_REASON
from shared.disruption.records import REBALANCE, BalancedScore, Candidate, Command
from shared.domain.machines.commands import CommandRecord
from shared.domain.machines.machine import CONSOLIDATABLE, DRIFTED, EXPIRED, INITIALIZED, Machine
from shared.domain.pools.generations import Generation
from shared.domain.pools.nodepools import BALANCED, EMPTY, UNDERUTILIZED, WHEN_EMPTY
from shared.metrics import Metrics

CONSOLIDATION = "consolidation"
APPROVED, REJECTED = "approved", "rejected"
_REASONS = {
    emptiness.METHOD: EMPTY,
    expiration.METHOD: EXPIRED_REASON,
    drift.METHOD: DRIFTED,
    static_drift.METHOD: DRIFTED,
    rebalance.METHOD: REBALANCE,
}


def deprovisioner(method: str) -> str:
    """The name of a method in v0.31."""
    return CONSOLIDATION if method in CONSOLIDATIONS else method


def count_pass(
    metrics: Metrics, method: str, generation: Generation, *, seconds: float, late: bool
) -> None:
    """One method evaluated the candidates of one generation. ``late``: not all of them (CON-10)."""
    reason = _REASONS.get(method, UNDERUTILIZED).lower()
    metrics.disruption_seconds.labels(reason, method).observe(seconds)
    if generation.older_names:
        metrics.deprovisioning_seconds.labels(deprovisioner(method)).observe(seconds)
    if not late:
        return
    metrics.consolidation_timeouts.labels(method).inc()
    if generation.older_names:
        metrics.deprovisioning_timeouts.labels(method).inc()


def count_weighed(metrics: Metrics, balanced_scores: Iterable[BalancedScore]) -> None:
    """CON-12: moves that a Balanced pool judged."""
    for move in balanced_scores:
        labels = (APPROVED if move.approved else REJECTED, move.pool, BALANCED)
        metrics.consolidation_score.labels(*labels).observe(move.score)
        metrics.consolidation_moves.labels(*labels).inc()


def count_command(metrics: Metrics, command: Command) -> None:
    """A command begins (EXE-01)."""
    reason = command.reason.lower()
    metrics.disruption_decisions.labels(command.decision, reason, command.method).inc()
    for pool in sorted({c.machine.pool for c in command.candidates}):
        metrics.decisions_by_nodepool.labels(command.decision, reason, pool).inc()
    if command.candidates[0].machine.api.older_names:
        old = deprovisioner(command.method)
        metrics.deprovisioning_actions.labels(command.decision, old).inc()


def count_eligible(metrics: Metrics, candidates: Collection[Candidate]) -> None:
    """What the last survey found, both generations."""
    full = [one for one in candidates if not one.empty]
    eligible = metrics.disruption_eligible
    eligible.labels("empty").set(len(candidates) - len(full))
    eligible.labels("drifted").set(sum(one.machine.has(DRIFTED) for one in candidates))
    eligible.labels("underutilized").set(sum(one.machine.has(CONSOLIDATABLE) for one in full))
    old = [one for one in candidates if one.machine.api.older_names]
    eligible = metrics.deprovisioning_eligible
    eligible.labels(emptiness.METHOD).set(sum(one.empty for one in old))
    eligible.labels(drift.METHOD).set(sum(one.machine.has(DRIFTED) for one in old))
    eligible.labels(expiration.METHOD).set(sum(one.machine.has(EXPIRED) for one in old))
    eligible.labels(CONSOLIDATION).set(sum(_may_be_consolidated(one) for one in old))


def _may_be_consolidated(candidate: Candidate) -> bool:
    """For v1alpha5, which has no condition for it."""
    return not candidate.empty and candidate.pool.consolidation_policy != WHEN_EMPTY


def count_replaced(
    metrics: Metrics, record: CommandRecord, machines: Mapping[str, Machine]
) -> None:
    """Its replacements are ready. ``machines``: by key."""
    for key in record.replacements:
        machine = machines.get(key)
        if machine is None or not (machine.api.older_names and machine.has(INITIALIZED)):
            continue
        seconds = machine.conditions[INITIALIZED].since - machine.created_at
        metrics.replacement_seconds.observe(max(0.0, seconds))


def count_failed(metrics: Metrics, record: CommandRecord, unready: int) -> None:
    """A command failed (EXE-05). ``unready``: its replacements that never were ready; 0: it failed before there were
    any."""
    metrics.disruption_failures.inc(max(1, unready))
    if unready and any(key.startswith("Machine/") for key in record.replacements):
        metrics.replacement_failures.labels(deprovisioner(record.method)).inc(unready)
