"""How many more machines of each pool may be disrupted now (DIS-22..26)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set

from shared.domain.budgets import allowed_disruptions
from shared.domain.machines import INITIALIZED, INSTANCE_TERMINATING, Machine
from shared.domain.nodepools import DRIFTED, EMPTY, UNDERUTILIZED, NodePool
from shared.domain.nodes import Node

REASONS = (EMPTY, DRIFTED, UNDERUTILIZED)


def allowed_now(
    pools: Iterable[NodePool],
    machines: Iterable[Machine],
    nodes: Mapping[str, Node],
    busy: Set[str],
    *,
    now: float,
) -> dict[tuple[str, str], int]:
    """(pool key, reason) -> how many more. ``nodes`` by name, ``busy``: UIDs of machines that a command holds."""
    counted, consuming = usage(machines, nodes, busy)
    return {
        (pool.key, reason): allowed_disruptions(
            pool.budgets,
            reason,
            total=counted[pool.key],
            consuming=consuming[pool.key],
            now=now,
        )
        for pool in pools
        for reason in REASONS
    }


def usage(
    machines: Iterable[Machine], nodes: Mapping[str, Node], busy: Set[str]
) -> tuple[Counter[str], Counter[str]]:
    """DIS-24: by pool key, the machines that count, and those of them that are down or on their way out."""
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
