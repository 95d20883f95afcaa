"""Which machines would drift from their pool and node class as these would be. Pure.

The launcher's own checks, without what only EC2 knows: where the images, groups and subnets that a class selects cannot
be looked up, a machine keeps the condition that it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from cli.text import counted
from services.launcher.drift.reasons import Facts, drift_of, is_judged
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import DRIFTED, Condition, Machine
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot

SELECTORS = ("subnetSelector", "securityGroupSelector", "amiSelector", "capacityReservationSelector")  # fmt: skip


def with_drift(snapshot: Snapshot, gates: FeatureGates, now: float) -> Snapshot:
    """The snapshot with the condition Drifted as the launcher would set it at ``now``, in seconds since the epoch."""
    pools = {pool.key: pool for pool in snapshot.pools}
    # A class that is not among the inputs has no hash, and nothing is known of it.
    classes = {one.key: one for one in snapshot.node_classes if one.hash}
    types = {kind.name: kind for kind in snapshot.catalogue.types}

    def judged(machine: Machine) -> Machine:
        if not is_judged(machine):
            return machine
        if machine.api.drift_needs_gate and not gates.drift:
            return _marked(machine, "", now)
        pool = pools.get(machine.pool_key)
        key = _class_key(machine, pool)
        facts = Facts(pool, classes.get(key), types=types, type_seen=True)
        reason = drift_of(machine, facts, now=now)
        return machine if reason is None else _marked(machine, reason, now)

    return replace(snapshot, machines=tuple(map(judged, snapshot.machines)))


def _marked(machine: Machine, reason: str, now: float) -> Machine:
    held = machine.conditions.get(DRIFTED)
    if held is not None and held.status == "True" and held.reason == reason:
        return machine
    others = {name: one for name, one in machine.conditions.items() if name != DRIFTED}
    if reason:
        others[DRIFTED] = Condition("True", reason, reason, now)
    return replace(machine, conditions=others)


def _class_key(machine: Machine, pool: NodePool | None) -> str:
    follows = pool is not None and machine.api.class_follows_pool
    return pool.node_class_key if pool and follows else machine.node_class_key


def machines_of_class(snapshot: Snapshot, key: str) -> list[Machine]:
    """Those that drift when what the class selects is something else than now."""
    pools = {pool.key: pool for pool in snapshot.pools}
    return [
        one
        for one in snapshot.machines
        if _class_key(one, pools.get(one.pool_key)) == key and not one.terminating
    ]


def changed_selectors(fields: Iterable[str]) -> list[str]:
    """Of these changed fields those that select by what only AWS knows."""
    return sorted({one for one in fields if any(part in one for part in SELECTORS)})


def not_judged(key: str, selectors: Iterable[str], machines: int) -> str:
    """What the plan does not know about a changed node class with so many machines, for people."""
    text = f"{key}: what {', '.join(selectors)} selects is known in AWS only"
    if not machines:
        return f"{text}; it has no machine yet"
    return (
        f"{text}: if it is something else than now, {counted(machines, 'machine')} of the class will drift and be "
        "replaced beside what is planned here"
    )


def reason_of(machine: Machine) -> str:
    """Why it drifted; empty when it did not."""
    held: Any = machine.conditions.get(DRIFTED)
    return held.reason if held is not None and held.status == "True" else ""
