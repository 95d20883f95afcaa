"""Disruption budgets: how many more machines of each pool may be disrupted now (DIS-22..26).

In addition to Karpenter's budgets, which limit concurrent disruptions, there are a rate per hour and a switch that
turns disruption off for one pool or for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from shared.disruption.records import EXPIRED, REBALANCE
from shared.domain.machines.machine import INITIALIZED, INSTANCE_TERMINATING, Machine
from shared.domain.nodes import Node
from shared.domain.pools.budgets import UNLIMITED, allowed_disruptions
from shared.domain.pools.nodepools import DRAIN, DRIFTED, EMPTY, UNDERUTILIZED, NodePool

REASONS = (EMPTY, DRIFTED, UNDERUTILIZED, EXPIRED, REBALANCE)
"""All that a budget without reasons of its own holds."""
NOTHING_SPENT: Mapping[str, int] = {}


def allowed_now(
    pools: Iterable[NodePool],
    machines: Iterable[Machine],
    nodes: Mapping[str, Node],
    busy: Set[str],
    *,
    now: float,
    off: bool = False,
    spent: Mapping[str, int] = NOTHING_SPENT,
) -> dict[tuple[str, str], int]:
    """(pool key, reason) -> how many more machines may be disrupted.

    ``nodes``: by name. ``busy``: UIDs of machines in running commands. ``off``: disruption is off for all pools.
    ``spent``: pool key -> machines disrupted in the last hour, those on their way out included. Machines of running
    commands that stay so far will be.
    """
    machines = list(machines)
    counted, consuming = usage(machines, nodes, busy)
    ahead = Counter(one.pool_key for one in machines if one.uid in busy and not one.terminating)
    found = {}
    for pool in pools:
        ceiling = 0 if off else _ceiling(pool, spent.get(pool.key, 0) + ahead[pool.key])
        for reason in REASONS:
            budget = allowed_disruptions(
                pool.budgets,
                reason,
                total=counted[pool.key],
                consuming=consuming[pool.key],
                now=now,
            )
            found[pool.key, reason] = min(budget, ceiling)
    return found


def reported_reasons(pool: NodePool) -> tuple[str, ...]:
    """The reasons that events and metrics of this pool report. A NodePool's machines
    expire whatever the budgets (DIS-60), and few pools follow recommendations.
    """
    ours = ((EXPIRED, pool.api.replaces_expired), (REBALANCE, pool.rebalance == DRAIN))
    return (EMPTY, DRIFTED, UNDERUTILIZED, *(reason for reason, happens in ours if happens))


class Allowance(NamedTuple):
    """The concurrent disruptions that a pool's budgets allow, current ones included.

    ``most``: equal to ``machines`` when no budget applies.
    """

    most: int
    machines: int
    """Number of the pool's machines that budgets count."""

    @property
    def blocks(self) -> bool:
        """True when the budgets allow no disruption although the pool has machines."""
        return self.machines > 0 and self.most == 0


def by_budget(
    pools: Iterable[NodePool], machines: Iterable[Machine], nodes: Mapping[str, Node], *, now: float
) -> dict[tuple[str, str], Allowance]:
    """(pool key, reason) -> the allowance of its budgets, for ``reported_reasons``. ``nodes``: by name."""
    counted, _ = usage(machines, nodes, frozenset())
    found = {}
    for pool in pools:
        total = counted[pool.key]
        for reason in reported_reasons(pool):
            most = allowed_disruptions(pool.budgets, reason, total=total, consuming=0, now=now)
            found[pool.key, reason] = Allowance(total if most == UNLIMITED else most, total)
    return found


def _ceiling(pool: NodePool, spent: int) -> int:
    """The number of disruptions that the pool's own switch and rate per hour allow."""
    if pool.disruption_off:
        return 0
    most = pool.most_disruptions_per_hour
    return UNLIMITED if most is None else max(0, most - spent)


def usage(
    machines: Iterable[Machine], nodes: Mapping[str, Node], busy: Set[str]
) -> tuple[Counter[str], Counter[str]]:
    """(machines that budgets count, those of them that are not ready or being disrupted), each by pool key (DIS-24)."""
    counted: Counter[str] = Counter()
    consuming: Counter[str] = Counter()
    for machine in machines:
        if not machine.has(INITIALIZED) or machine.has(INSTANCE_TERMINATING):
            continue
        node = nodes.get(machine.node_name)
        down = node is None or not node.ready or node.terminating
        counted[machine.pool_key] += 1
        consuming[machine.pool_key] += down or machine.terminating or machine.uid in busy
    return counted, consuming
