"""What a plan says: machines to create, pods that existing capacity takes, and why the rest has to wait."""

from __future__ import annotations

import msgspec

from shared.domain.expressions import Expression, Taint
from shared.domain.instance_types.types import Offering
from shared.domain.pools.generations import OF_KIND, Generation


class PlannedMachine(msgspec.Struct, frozen=True):
    """One machine to create. ``name`` is deterministic: the same plan makes the same names (R4)."""

    name: str
    pool: str
    pool_key: str
    node_class: str
    pods: tuple[str, ...]
    """UIDs."""
    instance_types: tuple[str, ...]
    """Cheapest first, at most 600 (SCH-103)."""
    requirements: tuple[Expression, ...]
    requests: dict[str, int]
    """Pods plus daemon set overhead (NC-09)."""
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    startup_taints: tuple[Taint, ...]
    instance_type: str
    """Of the cheapest offering, the one the cost below assumes."""
    offering: Offering
    min_values_relaxed: bool = False
    """It may become fewer kinds of machines than its pool asks for (SCH-12 BestEffort, NC-07)."""

    @property
    def api(self) -> Generation:
        """The rules of its pool's generation."""
        return OF_KIND[self.pool_key.partition("/")[0]]


class GivenUp(msgspec.Struct, frozen=True):
    """A preference that equal pods lost, as they had no place with it (SCH-24)."""

    uid: str
    """Of the first of them."""
    pods: int
    reason: str


class Plan(msgspec.Struct, frozen=True):
    """The answer to one snapshot."""

    id: str
    """Digest of the input: two equal snapshots give the same plan with the same id."""
    generation: int
    machines: tuple[PlannedMachine, ...]
    existing: dict[str, tuple[str, ...]]
    """Node or machine name -> UIDs of the pods that fit there."""
    unschedulable: dict[str, str]
    """Pod UID -> reason, in Karpenter's words (SCH-43)."""
    cost_micro_usd_per_hour: int = 0
    """Of the new machines, each at its cheapest offering."""
    lower_bound_micro_usd_per_hour: int | None = None
    """No plan that places the same pods on new machines can cost less; None: not computed."""
    relaxed: tuple[str, ...] = ()
    """Constraints that the bound leaves out: with them it may be out of reach."""
    faults: tuple[str, ...] = ()
    """What of the input was left out because it is wrong, each naming its object; pods have verdicts instead."""
    given_up: tuple[GivenUp, ...] = ()
    """In order; the first hundred."""
    policies: dict[str, str] = {}
    """Pool key -> packing policy that made its machines, where it is not FewestNodes."""
