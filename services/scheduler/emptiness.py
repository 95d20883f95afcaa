"""When an empty machine goes: pure (DIS-32..34, [5] ttlSecondsAfterEmpty).

The clock starts when the machine is initialised and its last pod that counts is gone; it is kept as the Machine's
``MachineEmpty`` condition, so a restart of the scheduler does not start it anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Literal

import msgspec

from shared.domain.budgets import allowed_disruptions
from shared.domain.machines import EMPTY, INITIALIZED, Machine
from shared.domain.nodepools import EMPTY as EMPTY_REASON
from shared.domain.nodepools import NodePool
from shared.domain.nodes import Node
from shared.domain.pods import Pod, is_reschedulable

Act = Literal["mark", "unmark", "terminate"]


class Emptiness(msgspec.Struct, frozen=True):
    """One thing to do about one machine. ``empty_seconds`` is how long it has been empty."""

    act: Act
    machine: Machine
    node: Node
    ttl_seconds: float = 0.0
    empty_seconds: float = 0.0


def occupied_nodes(pods: Iterable[Pod]) -> set[str]:
    """Nodes that hold a pod which counts: no daemon, no mirror, not finished (DIS-16)."""
    return {
        pod.node_name
        for pod in pods
        if pod.node_name and (is_reschedulable(pod) or _is_leaving(pod))
    }


def _is_leaving(pod: Pod) -> bool:
    """A pod on its way out still runs on the node."""
    return pod.terminating and not pod.is_daemon and not pod.is_mirror and not pod.is_terminal


def review(
    machines: Iterable[Machine],
    nodes: Mapping[str, Node],
    pools: Mapping[str, NodePool],
    occupied: Set[str],
    nominated: Set[str],
    *,
    now: float,
) -> list[Emptiness]:
    """What to do now. ``nodes`` by name, ``pools`` by key; ``nominated``: node and machine names promised to pods."""
    acts = []
    for machine in machines:
        node, pool = nodes.get(machine.node_name), pools.get(machine.pool_key)
        if node is None or pool is None or machine.terminating or not machine.has(INITIALIZED):
            continue
        act = _review_one(machine, node, pool, occupied, nominated, now)
        if act is not None:
            acts.append(act)
    return acts


def within_budgets(
    acts: Iterable[Emptiness],
    machines: Iterable[Machine],
    pools: Mapping[str, NodePool],
    *,
    now: float,
) -> list[Emptiness]:
    """``acts`` without the terminations that a pool's budgets do not allow now (DIS-22..24)."""
    counted: Counter[str] = Counter()
    consuming: Counter[str] = Counter()
    for machine in machines:
        if machine.has(INITIALIZED):
            counted[machine.pool_key] += 1
            consuming[machine.pool_key] += machine.terminating or not machine.has("Ready")
    kept = []
    for act in acts:
        key = act.machine.pool_key
        if act.act == "terminate":
            allowed = allowed_disruptions(
                pools[key].budgets,
                EMPTY_REASON,
                total=counted[key],
                consuming=consuming[key],
                now=now,
            )
            if not allowed:
                continue
            consuming[key] += 1
        kept.append(act)
    return kept


def _review_one(
    machine: Machine,
    node: Node,
    pool: NodePool,
    occupied: Set[str],
    nominated: Set[str],
    now: float,
) -> Emptiness | None:
    busy = node.name in occupied or bool({node.name, machine.name} & nominated)
    ttl, marked = pool.empty_ttl_seconds, machine.has(EMPTY)
    if busy or ttl is None:
        return Emptiness("unmark", machine, node) if marked else None
    if not marked:
        return Emptiness("mark", machine, node, ttl)
    empty_for = now - machine.conditions[EMPTY].since
    return Emptiness("terminate", machine, node, ttl, empty_for) if empty_for >= ttl else None
