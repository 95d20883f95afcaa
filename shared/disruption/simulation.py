"""Would the pods of these machines find a place without them? The solver answers for a cluster without (CON-03).

The solver sees all other nodes and machines, the candidates' pods, the pods that wait anyway and those of other
machines on their way out. What may go wrong: a pod fits nowhere, or only on a node that is not initialised yet and
might never be: both make the answer no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import msgspec
from msgspec.structs import replace

from shared.disruption.records import Candidate, World
from shared.domain.machines.machine import CONSOLIDATABLE, INITIALIZED, Machine
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import replacing
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import is_reschedulable
from shared.solver.placement.fewest_nodes import STRICT
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.solve import solve


class Simulation(msgspec.Struct, frozen=True):
    """What would happen. ``problem`` is empty when every pod of the candidates finds a place."""

    plan: Plan
    machines: tuple[PlannedMachine, ...]
    """Those that take pods of the candidates; what only waiting pods need is bought anyway."""
    problem: str = ""
    on_unready: tuple[str, ...] = ()
    """UIDs of pods that would go to a node that is not initialised."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Existing nodes and machines that take pods."""
        return tuple(self.plan.existing)


def without(snapshot: Snapshot, candidates: Iterable[Candidate]) -> Snapshot:
    """The snapshot after these machines are gone; their pods are still in it, bound to nodes that are not."""
    going = {candidate.machine.uid for candidate in candidates}
    names = {candidate.node.name for candidate in candidates}
    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name not in names),
        machines=tuple(machine for machine in snapshot.machines if machine.uid not in going),
    )


def simulate(
    world: World,
    candidates: tuple[Candidate, ...],
    *,
    consolidating: bool = False,
    coming: tuple[Machine, ...] = (),
) -> Simulation:
    """CON-03. ``consolidating``: nobody needs the move, so nodes that took pods a moment ago are no targets either
    (SCH-54), minValues holds in full whatever the policy (SCH-12), and one machine is better than two that are paid
    for. ``coming``: machines that the command buys; they may take pods although nobody has initialised them."""
    found = world.folding.pods_of(world.snapshot, keep_whole=bool(world.solver.default_spread))
    snapshot = without(found.without({c.node.name for c in candidates}), candidates)
    if consolidating:
        snapshot = settled(snapshot)
    snapshot = replace(snapshot, machines=(*snapshot.machines, *coming))
    moved = frozenset(
        pod.uid for candidate in candidates for pod in candidate.pods if is_reschedulable(pod)
    )
    settings = replace(world.solver, counting=replacing(world.solver.counting))
    if consolidating:
        settings = replace(settings, min_values_policy=STRICT, fills_places=False)
    plan = solve(
        snapshot,
        now=world.now,
        settings=settings,
        reschedule=moved | found.moving,
    )
    needed = tuple(machine for machine in plan.machines if moved & set(machine.pods))
    problem, on_unready = _problem(plan, snapshot, moved, {machine.name for machine in coming})
    return Simulation(plan, needed, problem, on_unready)


def settled(snapshot: Snapshot) -> Snapshot:
    """Nodes whose machine waits for its consolidateAfter to pass take no more pods in a simulation (SCH-54); v1alpha5
    has no such wait."""
    pools = {pool.key: pool for pool in snapshot.pools}
    young = {m.node_name for m in snapshot.machines if m.node_name and _is_young(m, pools)}
    return replace(
        snapshot,
        nodes=tuple(
            replace(node, unschedulable=True) if node.name in young else node
            for node in snapshot.nodes
        ),
    )


def _is_young(machine: Machine, pools: Mapping[str, NodePool]) -> bool:
    pool = pools.get(machine.pool_key)
    if pool is None or not (pool.api.waits_until_consolidatable and pool.consolidate_after_seconds):
        return False
    return machine.has(INITIALIZED) and not machine.has(CONSOLIDATABLE)


def _problem(
    plan: Plan, snapshot: Snapshot, moved: frozenset[str], coming: Set[str]
) -> tuple[str, tuple[str, ...]]:
    """Why the answer is no, empty for yes, and the pods on the node to blame. Pods that waited before may go on
    waiting."""
    for uid, reason in plan.unschedulable.items():
        if uid in moved:
            return f"not all pods would schedule, {reason}", ()
    ready = {node.name for node in snapshot.nodes if node.is_initialized or not node.is_managed}
    ready |= coming
    for name, uids in plan.existing.items():
        if name not in ready and moved & set(uids):
            return f"would schedule against uninitialized node {name}", tuple(uids)
    return "", ()
