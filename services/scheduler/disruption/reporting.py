"""What users see of a disruption: logs, events and metrics (EXE-01, EXE-04..06, EVT-02, MET-06).

Each generation has its own texts, which Karpenter's users match on, and its own names of metrics (deprovisioning_* of
MET-12).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.scheduler.disruption.conditions import ConditionChange
from services.scheduler.disruption.methods import CONSOLIDATIONS
from services.scheduler.state.decisions import DecisionLog, Rejected
from shared.api.core.references import to_machine, to_node, to_pod, to_pool
from shared.disruption.advice import cause_of
from shared.disruption.budgets import Allowance
from shared.disruption.methods import drift, emptiness, expiration, rebalance, static_drift
from shared.disruption.pod_blocks import annotation_event
from shared.disruption.records import (
    APPROVED,
    BLOCKED,
    CHURN,
    PROPOSED,
    REBALANCE,
    REJECTED,
    BalancedScore,
    Candidate,
    Command,
    Rejection,
    Verdict,
)
from shared.disruption.records import EXPIRED as EXPIRED_REASON
from shared.domain.machines.commands import CommandRecord
from shared.domain.machines.machine import (
    CONSOLIDATABLE,
    DRIFTED,
    EMPTY,
    EXPIRED,
    INITIALIZED,
    Machine,
)
from shared.domain.nodes import Node
from shared.domain.pools.generations import Generation
from shared.domain.pools.nodepools import BALANCED, UNDERUTILIZED, WHEN_EMPTY, NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.metrics import EVENTUAL, GRACEFUL, Metrics

log = get_logger(__name__)

REJECTED_SECONDS = 900.0
"""An event about a machine that stays is repeated after so long (CON-01)."""
NOTED_SECONDS = 3600.0
"""An event about a pod's annotation is repeated after so long."""
FIRST_NAMES = 5
MOST_REPORTED = 50
"""Machines of one command that get an event: two each, and the recorder's queue is for others too."""
CONSOLIDATION = "consolidation"
_REASONS = {
    emptiness.METHOD: EMPTY,
    expiration.METHOD: EXPIRED_REASON,
    drift.METHOD: DRIFTED,
    static_drift.METHOD: DRIFTED,
    rebalance.METHOD: REBALANCE,
}


@dataclass
class DisruptionReporter:
    """Reports; decides nothing."""

    recorder: Recorder
    metrics: Metrics
    decisions: DecisionLog

    def disrupting(self, command: Command, id_: str, rejected: Sequence[Rejected] = ()) -> None:
        """A command begins (EXE-01). ``id_``: of its record; ``rejected``: what its pass decided against."""
        self.decisions.command(command, id_, rejected)
        reason = command.reason.lower()
        self.metrics.disruption_decisions.labels(command.decision, reason, command.method).inc()
        for pool in sorted({c.machine.pool for c in command.candidates}):
            self.metrics.decisions_by_nodepool.labels(command.decision, reason, pool).inc()
        if command.candidates[0].machine.api.older_names:
            old = deprovisioner(command.method)
            self.metrics.deprovisioning_actions.labels(command.decision, old).inc()
            log.info(_deprovisioning(command), command=id_)
            return
        names = [c.node.name for c in command.candidates]
        log.info(
            "disrupting node(s)",
            **{"command-id": id_, "disrupted-node-count": len(names)},
            command=command.text,
            reason=reason,
            decision=command.decision,
            **{
                "replacement-node-count": len(command.replacements),
                "pod-count": command.moved_pods,
                "disrupted-nodes": names[:FIRST_NAMES],
                "replacement-nodes": [
                    {
                        "capacity-type": planned.offering.capacity_type,
                        "instance-types": ", ".join(planned.instance_types[:FIRST_NAMES]),
                    }
                    for planned in command.replacements[:FIRST_NAMES]
                ],
                "saving-micro-usd-per-hour": command.saving_micro_usd_per_hour,
            },
        )

    async def launching(self, machine: Machine, reason: str) -> None:
        """A replacement was created (EXE-04)."""
        text = f"Launching {machine.kind}: {reason}"
        await self.recorder.publish(to_machine(machine), "Normal", "DisruptionLaunching", text)

    async def waiting(self, replacements: Iterable[Machine]) -> None:
        """A command waits for these replacements (EXE-04)."""
        for machine in replacements:
            if not machine.has(INITIALIZED):
                await self.recorder.publish(
                    to_machine(machine), "Normal", "DisruptionWaitingReadiness",
                    "Waiting on readiness to continue disruption",
                )  # fmt: skip

    def replaced(self, record: CommandRecord, machines: Mapping[str, Machine]) -> None:
        """Its replacements are ready (MET-12). ``machines``: by key."""
        for key in record.replacements:
            machine = machines.get(key)
            if machine is None or not (machine.api.older_names and machine.has(INITIALIZED)):
                continue
            seconds = machine.conditions[INITIALIZED].since - machine.created_at
            self.metrics.replacement_seconds.observe(max(0.0, seconds))

    async def terminating(
        self,
        record: CommandRecord,
        machine: Machine,
        pool: NodePool | None,
        node: Node | None,
        moving: int,
    ) -> None:
        """A command deleted this machine (EXE-06). ``moving``: how many pods have to move."""
        timed = _text_of_timeout(record, machine, pool)
        decision = "Replace" if record.replacements else "Delete"
        text = timed or f"Disrupting {machine.kind}: {record.reason}/{decision}"
        log.info(text, node=machine.node_name, machine=machine.name)
        await self._announce(machine, text, node, timed or f"Disrupting Node: {record.reason}")
        mode = EVENTUAL if record.method in (drift.METHOD, static_drift.METHOD) else GRACEFUL
        policy = pool.consolidation_policy if pool else ""
        self.metrics.count_disrupted(machine, record.reason.lower(), mode, policy=policy)
        self.metrics.pods_disrupted.labels(record.reason.lower()).inc(moving)

    def condition_changed(self, change: ConditionChange, pool: NodePool | None) -> None:
        """Emptiness as Karpenter v0.x logs it (DIS-32); other conditions are not logged."""
        if change.condition != EMPTY:
            return
        text = "added TTL to empty node" if change.is_true else "removed emptiness TTL from node"
        ttl = pool.empty_ttl_seconds if pool else None
        machine = change.machine
        log.info(text, node=machine.node_name, machine=machine.name, ttl_seconds=ttl)

    async def expired(self, machine: Machine, node: Node | None) -> None:
        """A v1 machine was deleted because of its age (DIS-60)."""
        log.info("deleting expired nodeclaim", NodeClaim=machine.name, Node=machine.node_name)
        self.decisions.expired(machine)
        self.metrics.count_disrupted(machine, "expired")
        await self._deleted(machine, node, "Expired")

    async def closed(self, machine: Machine, node: Node | None) -> None:
        """A machine was deleted because its pool is outside its hours."""
        log.info("deleting nodeclaim outside hours", NodeClaim=machine.name, Node=machine.node_name)
        self.decisions.closed(machine)
        self.metrics.count_disrupted(machine, "closed")
        await self._deleted(machine, node, "OutsideHours")

    async def _deleted(self, machine: Machine, node: Node | None, reason: str) -> None:
        """Without a command: its drain may take hours, in which its events are all that says why."""
        text = f"Disrupting {machine.kind}: {reason}/Delete"
        await self._announce(machine, text, node, f"Disrupting Node: {reason}")

    async def _announce(
        self, machine: Machine, text: str, node: Node | None, node_text: str
    ) -> None:
        reported = [(to_machine(machine), text)]
        if node is not None:
            reported.append((to_node(node), node_text))
        for involved, message in reported:
            await self.recorder.publish(involved, "Normal", "DisruptionTerminating", message)

    async def annotations(self, pods: Iterable[Pod], *, now: float) -> None:
        """What the annotations by which pods ask to stay have the effect of (DIS-11)."""
        for pod in pods:
            if pod.node_name and (note := annotation_event(pod, now=now)):
                await self.recorder.publish(to_pod(pod), *note, dedupe_seconds=NOTED_SECONDS)

    def consuming(
        self, snapshot: Snapshot, consuming: Mapping[str, int], reasons: Iterable[str]
    ) -> None:
        """How many nodes use up budgets (DIS-25). ``consuming``: by pool key."""
        used: Counter[tuple[str, str]] = Counter()
        for reason in reasons:
            for pool in snapshot.pools:
                used[pool.name, reason] += consuming.get(pool.key, 0)
        self.metrics.consuming_budgets.replace(used)

    async def budgets(
        self, snapshot: Snapshot, allowed: Mapping[tuple[str, str], Allowance]
    ) -> None:
        """Gauges, and an event where a budget allows nothing although there are nodes (DIS-25). Nodes that go already
        do not count for the event: they are no fault of the budget."""
        most: Counter[tuple[str, str]] = Counter()
        pools = {pool.key: pool for pool in snapshot.pools}
        for (key, reason), allowance in allowed.items():
            most[pools[key].name, reason] += allowance.most
            if allowance.blocks:
                text = (
                    f"No allowed disruptions for disruption reason {reason} due to blocking budget"
                )
                await self.recorder.publish(
                    to_pool(pools[key]), "Normal", BLOCKED, text, dedupe_seconds=60
                )
        self.metrics.allowed_disruptions.replace(most)

    def eligible(self, candidates: Collection[Candidate]) -> None:
        full = [one for one in candidates if not one.empty]
        eligible = self.metrics.disruption_eligible
        eligible.labels("empty").set(len(candidates) - len(full))
        eligible.labels("drifted").set(sum(one.machine.has(DRIFTED) for one in candidates))
        eligible.labels("underutilized").set(sum(one.machine.has(CONSOLIDATABLE) for one in full))
        old = [one for one in candidates if one.machine.api.older_names]
        eligible = self.metrics.deprovisioning_eligible
        eligible.labels(emptiness.METHOD).set(sum(one.empty for one in old))
        eligible.labels(drift.METHOD).set(sum(one.machine.has(DRIFTED) for one in old))
        eligible.labels(expiration.METHOD).set(sum(one.machine.has(EXPIRED) for one in old))
        eligible.labels(CONSOLIDATION).set(sum(_may_be_consolidated(one) for one in old))

    def pass_done(self, method: str, generation: Generation, *, seconds: float, late: bool) -> None:
        """One method evaluated the candidates of a generation. ``late``: not all of them (CON-10)."""
        reason = _REASONS.get(method, UNDERUTILIZED).lower()
        self.metrics.disruption_seconds.labels(reason, method).observe(seconds)
        if generation.older_names:
            self.metrics.deprovisioning_seconds.labels(deprovisioner(method)).observe(seconds)
        if not late:
            return
        self.metrics.consolidation_timeouts.labels(method).inc()
        if generation.older_names:
            self.metrics.deprovisioning_timeouts.labels(method).inc()

    def balanced_scores(self, moves: Iterable[BalancedScore]) -> None:
        """Moves that a Balanced pool judged (CON-12)."""
        for move in moves:
            labels = ("approved" if move.approved else "rejected", move.pool, BALANCED)
            self.metrics.consolidation_score.labels(*labels).observe(move.score)
            self.metrics.consolidation_moves.labels(*labels).inc()

    async def proposed(self, command: Command) -> None:
        """The command waits for its validation (CON-15)."""
        await self._of_candidates(command.candidates, PROPOSED, command.text)

    async def approved(self, command: Command, first: Command) -> None:
        """The command, or a part of it, is still right (CON-15). ``first``: as it was proposed."""
        await self._of_candidates(command.candidates, APPROVED, command.text)
        kept = {candidate.machine.uid for candidate in command.candidates}
        dropped = [c for c in first.candidates if c.machine.uid not in kept]
        text = f"{CHURN}: without this node the command is still right"
        await self._of_candidates(dropped, REJECTED, text)

    async def _of_candidates(self, candidates: Iterable[Candidate], reason: str, text: str) -> None:
        """On the node and on its machine (CON-15)."""
        for candidate in list(candidates)[:MOST_REPORTED]:
            for involved in (to_node(candidate.node), to_machine(candidate.machine)):
                await self.recorder.publish(involved, "Normal", reason, text)

    async def invalid(self, command: Command, verdict: Verdict) -> None:
        """The command is dropped (CON-11, CON-15)."""
        log.info(
            "disruption is not right any more",
            command=command.text,
            cause=verdict.cause,
            why=verdict.text,
        )
        self.metrics.failed_validations.labels(command.method).inc()
        self.decisions.dropped(command, verdict)
        text = f"{verdict.cause}: {verdict.text}"
        await self._of_candidates(command.candidates, REJECTED, text)

    def failed(self, record: CommandRecord, why: str, unready: int) -> None:
        """The command was rolled back (EXE-05). ``unready``: replacements that were deleted again."""
        log.warning("disruption rolled back", command=record.id, why=why, replacements=unready)
        self.decisions.rolled_back(record, why)
        self.metrics.disruption_failures.inc(max(1, unready))
        if unready and any(key.startswith("Machine/") for key in record.replacements):
            self.metrics.replacement_failures.labels(deprovisioner(record.method)).inc(unready)

    async def held_back(self, pool: NodePool, seconds: float) -> None:
        """The replacement of a drifted machine failed: the others of its pool wait (DRF-09)."""
        self.metrics.drift_backoffs.labels(pool.name).inc()
        text = f"Replacing drifted nodes again in {seconds:.0f}s: a replacement failed"
        log.info("drift of a pool is held back", pool=pool.key, seconds=round(seconds))
        await self.recorder.publish(to_pool(pool), "Warning", "DisruptionBackoff", text)

    async def rejected(
        self,
        rejections: Iterable[Rejection],
        nodes: Mapping[str, Node],
        machines: Mapping[str, Machine],
    ) -> None:
        """Why a machine stays: on its node, or on the machine while it has none (DIS-10)."""
        for rejection in rejections:
            node, machine = nodes.get(rejection.node), machines.get(rejection.machine_key)
            involved = to_node(node) if node else to_machine(machine) if machine else None
            if involved is None or not rejection.event:
                continue
            pod = f", pod {rejection.pod}" if rejection.pod else ""
            await self.recorder.publish(
                involved, "Normal", rejection.event, f"{rejection.text}{pod}",
                dedupe_seconds=REJECTED_SECONDS, alike=cause_of(rejection.text),
            )  # fmt: skip


def _deprovisioning(command: Command) -> str:
    """The line of v0.x when a command begins (EXE-01)."""
    names = ", ".join(
        f"{c.node.name}/{c.machine.instance_type}/{c.machine.capacity_type}"
        for c in command.candidates[:FIRST_NAMES]
    )
    action = f"deprovisioning via {command.method} {command.decision}"
    text = f"{action}, terminating {len(command.candidates)} machines {names}"
    for planned in command.replacements:
        types = ", ".join(planned.instance_types[:FIRST_NAMES])
        text += f" and replacing with {planned.offering.capacity_type} machine from types {types}"
        more = len(planned.instance_types) - FIRST_NAMES
        text += f" and {more} other(s)" if more > 0 else ""
    return text


def _text_of_timeout(record: CommandRecord, machine: Machine, pool: NodePool | None) -> str:
    """What v0.x logs for v1alpha5 (DIS-32, DIS-61); empty where it logs nothing of its own."""
    if machine.api.older_names and pool is not None:
        ttl = pool.empty_ttl_seconds
        if record.method == emptiness.METHOD and ttl is not None:
            return f"triggering termination after {ttl:.0f}s for empty node"
        if record.method == expiration.METHOD and pool.expire_seconds is not None:
            return f"triggering termination for expired node after TTL {pool.expire_seconds:.0f}s"
    return ""


def deprovisioner(method: str) -> str:
    """The name of a method in v0.31."""
    return CONSOLIDATION if method in CONSOLIDATIONS else method


def _may_be_consolidated(candidate: Candidate) -> bool:
    """For v1alpha5, which has no condition for it."""
    return not candidate.empty and candidate.pool.consolidation_policy != WHEN_EMPTY
