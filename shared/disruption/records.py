"""The words of disruption: candidate, command, rejection, and the picture that a pass looks at."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from shared.disruption.folding import Folding
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines import Machine
from shared.domain.nodepools import NodePool
from shared.domain.nodes import Node
from shared.domain.pods import Pod
from shared.domain.snapshot import Snapshot
from shared.solver.plan import PlannedMachine
from shared.solver.solve import SolverSettings

BLOCKED, UNCONSOLIDATABLE = "DisruptionBlocked", "Unconsolidatable"
REJECTED = "ConsolidationRejected"
"""Events about machines that stay."""

PROPOSED, APPROVED = "ConsolidationCandidate", "ConsolidationApproved"
"""Events about machines of a command, before and after its second look (CON-15)."""

EXPIRED = "Expired"
"""A reason beside those of budgets: v1alpha5 replaces expired machines gracefully (DIS-61)."""

REBALANCE = "Rebalance"
"""The same for machines that EC2 recommends to leave."""

COST_UNIT = 2**27
"""Disruption costs are counted in 1/2^27: the spec's cost 1 is this many (DIS-15)."""


class Candidate(msgspec.Struct, frozen=True):
    """A machine that may be disrupted now (DIS-10)."""

    machine: Machine
    node: Node
    pool: NodePool
    pods: tuple[Pod, ...] = ()
    """Its reschedulable pods, by UID."""
    price_micro_usd_per_hour: int | None = None
    """Of its offering in the catalogue; None: the catalogue does not know it."""
    cost: int = COST_UNIT
    """Disruption cost in 1/2^27 (DIS-15)."""
    empty: bool = False
    """DIS-16: when a node is empty."""
    blocker: str = ""
    """Why its pods must not be moved now (DIS-11): holds graceful methods, and drift unless the machine has a
    termination grace period (DIS-13)."""
    blocking_pod: str = ""
    """``namespace/name`` of the pod behind ``blocker``."""

    @property
    def name(self) -> str:
        return self.machine.name

    def refused(self, text: str, *, event: str, reason: str = "", pod: str = "") -> Rejection:
        """Why it is not disrupted."""
        return Rejection(self.machine.key, self.node.name, event, text, reason, pod)


class Rejection(msgspec.Struct, frozen=True):
    """Why a machine is not disrupted: becomes an Event, a line of ``/status`` and of ``dovetail explain node``."""

    machine_key: str
    node: str
    event: str
    """DisruptionBlocked, Unconsolidatable or ConsolidationRejected."""
    text: str
    reason: str = ""
    """Empty, Drifted, Underutilized, Expired: what it is about; empty: every voluntary disruption."""
    pod: str = ""
    """``namespace/name`` of the pod that blocks, if it is one."""


class Command(msgspec.Struct, frozen=True):
    """Machines to take away together, and those to buy first."""

    method: str
    """emptiness, expiration, rebalance, drift, static-drift, multi-node, single-node or global."""
    reason: str
    candidates: tuple[Candidate, ...]
    replacements: tuple[PlannedMachine, ...] = ()
    targets: tuple[str, ...] = ()
    """Nodes that are to take pods: nominated while the command runs (EXE-02)."""
    saving_micro_usd_per_hour: int = 0
    moved_pods: int = 0
    text: str = ""
    """One line for people: what it does and what it saves."""

    @property
    def id(self) -> str:
        """The same machines for the same reason, whichever process proposes it."""
        parts = [self.method, self.reason, *sorted(c.machine.uid for c in self.candidates)]
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]

    @property
    def decision(self) -> str:
        """EXE-01: delete or replace."""
        return "replace" if self.replacements else "delete"


class Proposal(msgspec.Struct, frozen=True):
    """What one method says in one pass."""

    commands: tuple[Command, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    unseen: tuple[str, ...] = ()
    """Keys of machines that the pass had no time for: they come first in the next one (CON-10)."""


class BalancedScore(msgspec.Struct, frozen=True):
    """One move as a pool of the policy Balanced sees it (CON-12); nothing is decided by it."""

    pool: str
    """Its name."""
    score: float
    """Share of the pool's cost that is saved, over the share of its disruption that is paid."""
    approved: bool


class World(msgspec.Struct, frozen=True):
    """What a method may look at."""

    snapshot: Snapshot
    candidates: tuple[Candidate, ...]
    allowed: dict[tuple[str, str], int]
    """(pool key, reason) -> how many more of its machines may be disrupted now (DIS-22..24)."""
    now: float
    """Seconds since the epoch."""
    gates: FeatureGates = FeatureGates()
    solver: SolverSettings = SolverSettings()
    folding: Folding = msgspec.field(default_factory=Folding)
    """What simulations of this snapshot share."""
    balanced_scores: list[BalancedScore] = msgspec.field(default_factory=list)
    """Every move that was weighed since somebody emptied it: for the metrics alone (MET-06)."""

    def left(self, pool_key: str, reason: str) -> int:
        """What the budgets of this pool still allow for this reason; nothing for a pool that is not known."""
        return self.allowed.get((pool_key, reason), 0)


def effect(moved_pods: int, saving_micro_usd_per_hour: int) -> str:
    """What a command comes to, for its text."""
    verb = "saving" if saving_micro_usd_per_hour >= 0 else "costing"
    dollars = abs(saving_micro_usd_per_hour) / 1e6
    more = "" if saving_micro_usd_per_hour >= 0 else "more "
    return f"moving {moved_pods} pod(s), {verb} ${dollars:.4f} {more}an hour"


def within_budgets(
    candidates: Iterable[Candidate], world: World, reason: str
) -> tuple[Candidate, ...]:
    """The candidates, in their order, as far as each pool's budget goes (DIS-26)."""
    left: dict[str, int] = {}
    kept = []
    for candidate in candidates:
        key = candidate.machine.pool_key
        remaining = left.setdefault(key, world.left(key, reason))
        if remaining > 0:
            left[key] = remaining - 1
            kept.append(candidate)
    return tuple(kept)
