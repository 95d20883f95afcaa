"""Records of disruption: candidate, rejection, command, proposal, and the input of a pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from shared.disruption.folding import Folding
from shared.disruption.keeping import Keeping
from shared.disruption.removals.bounds import Bounds
from shared.disruption.removals.prepared import Preparing
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import GRACEFULLY_EXPIRED, NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.plan import PlannedMachine
from shared.solver.solve import SolverSettings

EXPIRED = GRACEFULLY_EXPIRED
"""The disruption reason of graceful expiration in v1alpha5 (DIS-61); budgets cannot name it."""

REBALANCE = "Rebalance"
"""The disruption reason of EC2 rebalance recommendations; budgets cannot name it."""

COST_UNIT = 2**27
"""Disruption costs are integers in units of 1/2^27; this is the cost 1 (DIS-15)."""


class EventReason(StrEnum):
    """Reasons of events about machines that are not disrupted, and about those of a command (CON-15)."""

    BLOCKED = "DisruptionBlocked"
    UNCONSOLIDATABLE = "Unconsolidatable"
    REJECTED = "ConsolidationRejected"
    PROPOSED = "ConsolidationCandidate"
    APPROVED = "ConsolidationApproved"


BLOCKED, UNCONSOLIDATABLE, REJECTED, PROPOSED, APPROVED = EventReason


class Candidate(msgspec.Struct, frozen=True):
    """A machine that may be disrupted now (DIS-10)."""

    machine: Machine
    node: Node
    pool: NodePool
    pods: tuple[Pod, ...] = ()
    """Its reschedulable pods, sorted by UID."""
    price_micro_usd_per_hour: int | None = None
    """The price of its offering; None when it is not in the catalogue."""
    cost: int = COST_UNIT
    """Disruption cost in 1/2^27 (DIS-15)."""
    empty: bool = False
    """No pod needs to move (DIS-16)."""
    too_used: str = ""
    """Why its pool's threshold keeps it from consolidation; empty: it does not."""
    blocker: str = ""
    """Why a pod blocks the disruption (DIS-11). Drift and rebalance ignore it for a machine with a
    terminationGracePeriod (DIS-13)."""
    blocking_pod: str = ""
    """``namespace/name`` of the pod behind ``blocker``."""

    @property
    def name(self) -> str:
        return self.machine.name

    def blocked(self, reason: str) -> Rejection:
        """A rejection because of the pod that blocks."""
        return self.refused(self.blocker, event=BLOCKED, reason=reason, pod=self.blocking_pod)

    def delayed(self, why: str, reason: str) -> Rejection:
        """A rejection because its pool's nodes are left alone for a while, without an event."""
        return Rejection(self.machine.key, self.node.name, "", why, reason)

    def refused(
        self, text: str, *, event: EventReason, reason: str = "", pod: str = ""
    ) -> Rejection:
        """A rejection of this candidate."""
        return Rejection(self.machine.key, self.node.name, event, text, reason, pod)


class Rejection(msgspec.Struct, frozen=True):
    """Why a machine is not disrupted. It is shown as an event, in ``/status`` and by ``dovetail explain node``."""

    machine_key: str
    node: str
    event: str
    """An EventReason, or empty where no event is meant."""
    text: str
    reason: str = ""
    """The disruption reason that it concerns, such as Drifted; empty: every voluntary disruption."""
    pod: str = ""
    """``namespace/name`` of the pod that blocks; empty for other causes."""


class Command(msgspec.Struct, frozen=True):
    """Machines to remove together, and the machines to create first."""

    method: str
    """emptiness, expiration, rebalance, drift, static-drift, multi-node, single-node or global."""
    reason: str
    candidates: tuple[Candidate, ...]
    replacements: tuple[PlannedMachine, ...] = ()
    targets: tuple[str, ...] = ()
    """Nodes that will take pods; they stay nominated while the command runs (EXE-02)."""
    saving_micro_usd_per_hour: int = 0
    moved_pods: int = 0
    text: str = ""
    """One line for users: what the command does and what it saves."""

    @property
    def id(self) -> str:
        """Digest of method, reason and machines: equal in every process that proposes the command."""
        parts = [self.method, self.reason, *sorted(c.machine.uid for c in self.candidates)]
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]

    @property
    def decision(self) -> str:
        """``delete`` or ``replace`` (EXE-01)."""
        return "replace" if self.replacements else "delete"


class Proposal(msgspec.Struct, frozen=True):
    """The result of one method in one pass."""

    commands: tuple[Command, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    unseen: tuple[str, ...] = ()
    """Keys of machines that this pass did not reach; they come first in the next one (CON-10)."""


class BalancedScore(msgspec.Struct, frozen=True):
    """The score of a command in one pool of the policy Balanced (CON-12), for metrics."""

    pool: str
    """Name of the pool."""
    score: float
    """Saved share of the pool's cost, divided by the share of its disruption cost."""
    approved: bool


class World(msgspec.Struct, frozen=True):
    """The input of a pass; every method gets the same."""

    snapshot: Snapshot
    candidates: tuple[Candidate, ...]
    allowed: dict[tuple[str, str], int]
    """(pool key, reason) -> how many more of its machines may be disrupted now (DIS-22..24)."""
    now: float
    """Seconds since the epoch."""
    gates: FeatureGates = FeatureGates()
    solver: SolverSettings = SolverSettings()
    drift_held: frozenset[str] = frozenset()
    """Keys of pools whose drifted machines are left alone for a while (DRF-09)."""
    delayed: dict[str, str] = {}
    """Pool key -> why emptiness and consolidation leave its machines alone for a while."""
    keeping: Keeping = Keeping()
    """What pools have that keep a minimum or headroom."""
    folding: Folding = msgspec.field(default_factory=Folding)
    """Folded pods, shared by all simulations of this snapshot."""
    preparing: Preparing = msgspec.field(default_factory=Preparing)
    """The cluster as simulations of consolidation read it."""
    bounds: Bounds = msgspec.field(default_factory=Bounds)
    """Shows of many removals of this snapshot that they save nothing."""
    balanced_scores: list[BalancedScore] = msgspec.field(default_factory=list)
    """Collected scores of Balanced pools, for metrics only (MET-06); the reader clears the list."""

    def left(self, pool_key: str, reason: str) -> int:
        """How many more disruptions the pool's budgets allow for this reason; zero for an unknown pool."""
        return self.allowed.get((pool_key, reason), 0)


def effect(moved_pods: int, saving_micro_usd_per_hour: int) -> str:
    """Moved pods and saving, for a command's text."""
    verb = "saving" if saving_micro_usd_per_hour >= 0 else "costing"
    dollars = abs(saving_micro_usd_per_hour) / 1e6
    more = "" if saving_micro_usd_per_hour >= 0 else "more "
    return f"moving {moved_pods} pod(s), {verb} ${dollars:.4f} {more}an hour"


def within_budgets(
    candidates: Iterable[Candidate], world: World, reason: str
) -> tuple[Candidate, ...]:
    """The first candidates of each pool, in the given order, that its budget allows (DIS-26)."""
    left: dict[str, int] = {}
    kept = []
    for candidate in candidates:
        key = candidate.machine.pool_key
        remaining = left.setdefault(key, world.left(key, reason))
        if remaining > 0:
            left[key] = remaining - 1
            kept.append(candidate)
    return tuple(kept)


class Cause(StrEnum):
    """Causes of a ConsolidationRejected event."""

    BUDGET = "budget"
    SCHEDULING = "scheduling"
    CHURN = "churn"


BUDGET, SCHEDULING, CHURN = Cause


class Verdict(NamedTuple):
    """The valid part of the command; None: it is rejected, with cause and text."""

    command: Command | None
    cause: Cause | None = None
    text: str = ""
