"""The plan: machines to create, pods that existing capacity takes, and why the other pods stay pending."""

from __future__ import annotations

import msgspec

from shared.domain.expressions import Expression, Taint
from shared.domain.instance_types.types import Offering
from shared.domain.pools.generations import OF_KIND, Generation

FLUID, CONFIGURATION = "fluid", "configuration"
"""Kinds of lower bounds: over divisible pods, and over whole pods in machines."""


class PlannedMachine(msgspec.Struct, frozen=True, gc=False):
    """One machine to create. ``name`` is deterministic: the same plan gives the same names."""

    name: str
    pool: str
    pool_key: str
    node_class: str
    pods: tuple[str, ...]
    """UIDs of the pods."""
    instance_types: tuple[str, ...]
    """Cheapest first, at most 600 (SCH-103)."""
    requirements: tuple[Expression, ...]
    requests: dict[str, int]
    """Pods plus daemon set overhead (NC-09)."""
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    startup_taints: tuple[Taint, ...]
    instance_type: str
    """The type of ``offering``, the cheapest one, which ``Plan.cost_micro_usd_per_hour`` counts."""
    offering: Offering
    min_values_relaxed: bool = False
    """True when minValues was lowered under the policy BestEffort (SCH-12, NC-07)."""

    @property
    def api(self) -> Generation:
        """The rules of its pool's generation."""
        return OF_KIND[self.pool_key.partition("/")[0]]


class GivenUp(msgspec.Struct, frozen=True, gc=False):
    """A preference that was dropped for equal pods, because they did not fit with it (SCH-24)."""

    uid: str
    """UID of the first of these pods."""
    pods: int
    reason: str


class Plan(msgspec.Struct, frozen=True):
    """The plan for one snapshot."""

    id: str
    """Digest of the input: two equal snapshots give the same plan with the same id."""
    generation: int
    machines: tuple[PlannedMachine, ...]
    existing: dict[str, tuple[str, ...]]
    """Node or machine name -> UIDs of the pods that fit there."""
    unschedulable: dict[str, str]
    """Pod UID -> reason, in Karpenter's words (SCH-43)."""
    cost_micro_usd_per_hour: int = 0
    """The price of all new machines, each at its cheapest offering."""
    lower_bound_micro_usd_per_hour: int | None = None
    """No plan that places the same pods on new machines can cost less; None: not computed."""
    lower_bound_kind: str | msgspec.UnsetType = msgspec.UNSET
    """``configuration``: the bound counts whole pods in whole machines. Unset: the fluid bound, which divides pods."""
    relaxed: tuple[str, ...] = ()
    """Kinds of constraints that the lower bound ignores; with them no plan may reach it."""
    faults: tuple[str, ...] = ()
    """Messages about invalid input that the plan leaves out, each naming its object; invalid pods have verdicts."""
    given_up: tuple[GivenUp, ...] = ()
    """The first hundred dropped preferences, in order."""
    policies: dict[str, str] = {}
    """Pool key -> packing policy of its machines, for pools with another one than FewestNodes."""

    @property
    def bound_kind(self) -> str | None:
        """``fluid`` or ``configuration``; None without a bound."""
        if self.lower_bound_micro_usd_per_hour is None:
            return None
        return FLUID if self.lower_bound_kind is msgspec.UNSET else self.lower_bound_kind
