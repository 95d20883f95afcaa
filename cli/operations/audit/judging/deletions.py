"""Deletions end, unless a person's wish holds a pod.

A drain may take as long as its pods do. Its last step is what the objects say of it: the order, the end of a pod's own
grace period, a condition, the end of the machine's terminationGracePeriod. A deletion is late when nothing happened for
the grace after that.
"""

from __future__ import annotations

from cli.operations.audit.finding import Finding, Graces
from cli.operations.audit.picture import Leaving, Reading
from services.terminator.drain.pods import stays
from shared.disruption.pod_blocks import ANNOTATED, holds, pdb_block
from shared.domain import labels as keys
from shared.domain.machines.machine import (
    DRAINED,
    INSTANCE_TERMINATING,
    VOLUMES_DETACHED,
    Machine,
)
from shared.domain.nodes import Node
from shared.domain.pools.generations import OF_KIND
from shared.domain.workloads.pods import Pod

STEPS = (DRAINED, VOLUMES_DETACHED, INSTANCE_TERMINATING)
FINALIZERS = frozenset({keys.FINALIZER, keys.CLASS_FINALIZER})
NEXT = "dovetail logs terminator"


def deletions_end(reading: Reading, graces: Graces) -> list[Finding]:
    """Machines, nodes, pools and node classes whose deletion was ordered and goes no further."""
    nodes = {node.provider_id: node for node in reading.nodes if node.provider_id}
    found: list[Finding] = []
    for machine in reading.machines:
        if machine.terminating:
            node = nodes.get(machine.provider_id)
            found += _judged(machine.key, machine.deleted_at, machine, node, reading, graces)
    owned = {machine.provider_id for machine in reading.machines if machine.terminating}
    by_key = {f"Node/{node.name}": node for node in reading.nodes}
    used = {key for one in reading.machines for key in (one.pool_key, one.node_class_key)}
    for one in reading.leaving:
        node = by_key.get(one.key)
        if not FINALIZERS & set(one.finalizers) or (node and node.provider_id in owned):
            continue
        if node is not None and node.is_of_auto_mode:
            continue
        if node is not None:
            found += _judged(one.key, one.deleted_at, None, node, reading, graces)
        elif one.key not in used:
            found += _object(one, reading, graces)
    return found


def _object(one: Leaving, reading: Reading, graces: Graces) -> list[Finding]:
    if reading.at - one.deleted_at <= graces.deletion:
        return []
    why = "its deletion does not end, and no machine uses it"
    next_step = f"kubectl describe {one.key.lower()}; dovetail logs launcher"
    return [Finding(one.key, why, next_step, since=one.deleted_at, twice=True)]


def _judged(
    key: str,
    deleted_at: float,
    machine: Machine | None,
    node: Node | None,
    reading: Reading,
    graces: Graces,
) -> list[Finding]:
    if reading.at - deleted_at <= graces.deletion:
        return []
    left = _left(node, machine, reading)
    deadline = _deadline(machine)
    may_hold = deadline is None or reading.at < deadline
    if may_hold and (held := _held(left, reading)):
        next_step = "the pod's owner decides: kubectl describe pod"
        return [Finding(key, held, next_step, since=deleted_at, counts=False)]
    if reading.at - _last_step(deleted_at, machine, left, deadline) <= graces.deletion:
        return []
    found = f"its deletion does not end{_waits_for(left)}"
    # A pod that has left meanwhile is progress, which is in no object.
    version = ",".join(sorted(pod.uid for pod in left))
    return [Finding(key, found, NEXT, since=deleted_at, twice=True, version=version)]


def _left(node: Node | None, machine: Machine | None, reading: Reading) -> list[Pod]:
    """Pods that the drain has to wait for."""
    if node is None:
        return []
    api = machine.api if machine is not None else OF_KIND[node.pool_key.partition("/")[0]]
    return [
        pod
        for pod in reading.pods
        if pod.node_name == node.name and not stays(pod, api, now=reading.at)
    ]


def _deadline(machine: Machine | None) -> float | None:
    if machine is None:
        return None
    if machine.terminate_at is not None:
        return machine.terminate_at
    grace = machine.termination_grace_seconds
    return None if grace is None else machine.deleted_at + grace


def _held(left: list[Pod], reading: Reading) -> str:
    """Which pod a person's wish holds, and by what; empty for none."""
    for pod in left:
        why = ANNOTATED if holds(pod, now=reading.at) else pdb_block(pod, reading.budgets)
        if why:
            return f"pod {pod.key} holds its deletion: {why}"
    return ""


def _last_step(
    deleted_at: float, machine: Machine | None, left: list[Pod], deadline: float | None
) -> float:
    conditions = machine.conditions if machine is not None else {}
    steps = [conditions[name].since for name in STEPS if name in conditions]
    return max(deleted_at, deadline or 0.0, *steps, *(pod.terminate_at for pod in left), 0.0)


def _waits_for(left: list[Pod]) -> str:
    if not left:
        return ", and no pod is left on its node"
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return f": pod {left[0].key}{more} is left on its node"
