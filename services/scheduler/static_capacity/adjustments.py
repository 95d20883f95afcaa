"""Keeps static pools at their number of replicas (GAT-01, NP-13), behind the gate StaticCapacity.

Pure: what is missing, and which machines are too many. Machines that a running command replaces are counted twice on
purpose, once old and once new, so they are left out of the sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Set

import msgspec

from shared.disruption.candidates import disruption_cost, pods_by_node
from shared.disruption.pod_blocks import first_block
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.output import machine_name

NODES = "nodes"
MOST_AT_ONCE = 100


class Adjustment(msgspec.Struct, frozen=True):
    """What one static pool needs now."""

    pool: NodePool
    missing: int = 0
    surplus: tuple[Machine, ...] = ()


def adjustments(snapshot: Snapshot, *, busy_uids: Set[str], now: float) -> list[Adjustment]:
    """Of every static pool that is not as it should be. ``busy_uids``: of machines that commands replace, or whose
    deletion was ordered and the snapshot does not show yet: counted as staying, they would cost their replacements."""
    nodes = {node.name: node for node in snapshot.nodes}
    pods = pods_by_node(snapshot.pods)
    found = []
    for pool in snapshot.pools:
        if pool.replicas is None or pool.terminating or pool.closed:
            continue
        mine = [m for m in snapshot.machines if m.pool_key == pool.key]
        alive = [m for m in mine if not m.terminating and m.uid not in busy_uids]
        lacking = min(pool.replicas - len(alive), _room(pool, mine), MOST_AT_ONCE)
        if lacking > 0:
            found.append(Adjustment(pool, missing=lacking))
        elif len(alive) > pool.replicas:
            order = sorted(alive, key=lambda m: _worth(m, nodes, pods, snapshot, now))
            found.append(Adjustment(pool, surplus=tuple(order[: len(alive) - pool.replicas])))
    return found


def names_for(pool: NodePool, machines: Iterable[Machine], count: int) -> list[str]:
    """Names that follow from what there is: the same snapshot makes the same machines (R4)."""
    known = sorted(machine.uid for machine in machines)
    identity = hashlib.sha256("|".join([pool.uid, *known]).encode()).hexdigest()
    return [machine_name(pool.name, identity, index) for index in range(count)]


def _room(pool: NodePool, machines: list[Machine]) -> int:
    """How many more the limit allows; terminating machines still count (SCH-101)."""
    limit = pool.limits.get(NODES)
    return MOST_AT_ONCE if limit is None else limit - len(machines)


def _worth(
    machine: Machine,
    nodes: Mapping[str, Node],
    pods: Mapping[str, list[Pod]],
    snapshot: Snapshot,
    now: float,
) -> tuple[bool, bool, int, str]:
    """Sort key, first to go first: machines that are not ready, then those without a pod that must stay, then those
    that cost least to disrupt."""
    node = nodes.get(machine.node_name)
    mine = pods.get(machine.node_name, []) if machine.node_name else []
    works = machine.has(INITIALIZED) and node is not None and node.ready
    held = first_block(mine, snapshot.pdbs, now=now) is not None
    return works, held, disruption_cost(mine), machine.name
