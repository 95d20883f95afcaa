"""What pools would buy for their minimum and headroom once a plan is carried out."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from shared.disruption.keeping import keeping
from shared.domain.pools.kept_capacity import Holding, Lacking, Types, lacking, smallest
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import NODES
from shared.domain.resources import add
from shared.domain.snapshot import Snapshot
from shared.solver.output import machine_name
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.pools.kept import fill
from shared.solver.solve import SolverSettings


class Kept(NamedTuple):
    """One pool that keeps capacity. ``why``: what keeps it short; empty: nothing."""

    pool: NodePool
    short: Lacking
    machines: tuple[PlannedMachine, ...]
    why: str


def kept_after(plan: Plan, snapshot: Snapshot, settings: SolverSettings, now: float) -> list[Kept]:
    """For each pool that keeps capacity, in the snapshot's order. ``now``: seconds since the epoch."""
    known = keeping(snapshot, frozenset(), now=now)
    found = []
    for key, pool in known.pools.items():
        held = known.holdings[key].plus(_planned(plan, key, known.types))
        short = lacking(pool, held.plus(_placed(plan, snapshot, key)), now=now)
        machines, why = fill(snapshot, pool, short, settings) if short else ((), "")
        named = (
            replace(one, name=machine_name(pool.name, f"kept/{key}", index))
            for index, one in enumerate(machines)
        )
        found.append(Kept(pool, short, tuple(named), why))
    return found


def _planned(plan: Plan, pool_key: str, types: Types) -> Holding:
    """What the plan's new machines add to the pool."""
    total = Holding()
    for one in plan.machines:
        if one.pool_key == pool_key:
            capacity, allocatable = smallest(one.instance_types, types)
            total = total.plus(Holding({**capacity, NODES: 1}, allocatable, one.requests))
    return total


def _placed(plan: Plan, snapshot: Snapshot, pool_key: str) -> Holding:
    """What the plan's pods take of the pool's existing machines."""
    owners = {machine.name: machine.pool_key for machine in snapshot.machines}
    owners |= {node.name: node.pool_key for node in snapshot.nodes}
    requests = {pod.uid: pod.requests for pod in snapshot.pods}
    taken = [
        requests[uid]
        for name, uids in plan.existing.items()
        if owners.get(name) == pool_key
        for uid in uids
    ]
    return Holding(requested=add(*taken))
