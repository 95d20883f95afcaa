"""Simulates the removal of machines: do their pods fit on the rest of the cluster and on new machines? (CON-03)

The solver plans the candidates' pods, pending pods and pods of terminating machines on all other nodes and machines.
What may go wrong: a pod fits nowhere, or only on a node that is not initialised yet and might never be. In both cases
the simulation has a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import msgspec
from msgspec.structs import replace

from shared.disruption.records import Candidate, World
from shared.domain.machines.machine import CONSOLIDATABLE, INITIALIZED, Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import FEWEST_NODES, NodePool, PackingPolicy
from shared.domain.pools.usage import replacing
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.kept import Recent
from shared.domain.workloads.pods import is_reschedulable
from shared.solver.placement.planned_machines import STRICT
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.solve import SolverSettings, solve


class Simulation(msgspec.Struct, frozen=True):
    """The result. ``problem``: empty when every pod of the candidates fits."""

    plan: Plan
    machines: tuple[PlannedMachine, ...]
    """The new machines that take pods of the candidates. Those for pending pods alone are created anyway."""
    problem: str = ""
    on_unready: tuple[str, ...] = ()
    """UIDs of pods on the uninitialised node that is the problem."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of existing nodes and machines that take pods."""
        return tuple(self.plan.existing)


def without(snapshot: Snapshot, candidates: tuple[Candidate, ...]) -> Snapshot:
    """The snapshot without these machines and nodes. Their pods stay in it, bound to the removed nodes."""
    names, going = _going(candidates)
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
    policy: str = "",
) -> Simulation:
    """Plans the cluster without these candidates (CON-03).

    ``consolidating``: the move is optional, so nodes that took pods recently are not targets (SCH-54), minValues holds
    in full under every policy (SCH-12), and places in reservations are not filled with more machines than needed.
    ``coming``: the command's own replacements; they may take pods although they are not initialised. ``policy``: a
    packing policy for all pools, as if none had one of its own.
    """
    settings = _settings(world.solver, consolidating=consolidating, policy=policy)
    moved = frozenset(
        pod.uid for candidate in candidates for pod in candidate.pods if is_reschedulable(pod)
    )

    def changed(snapshot: Snapshot) -> Snapshot:
        if consolidating:
            snapshot = without_young_nodes(snapshot)
        if policy:
            pools = tuple(replace(pool, packing="") for pool in snapshot.pools)
            snapshot = replace(snapshot, pools=pools)
        return replace(snapshot, machines=(*snapshot.machines, *coming))

    plan: Plan | None = None
    if consolidating and policy == FEWEST_NODES and not coming:
        prepared = world.preparing.of(world.snapshot, settings, changed)
        if prepared is not None:
            plan = prepared.plan(*_going(candidates), moved)
    if plan is None:
        keep_whole = bool(world.solver.default_spread)
        found = world.folding.pods_of(world.snapshot, keep_whole=keep_whole)
        snapshot = changed(without(found.without(_going(candidates)[0]), candidates))
        # Virtual pods keep their room, on whatever node: a real pod that moves may take the place of one (GAT-02).
        moved |= {pod.uid for pod in snapshot.pods if pod.virtual and pod.node_name}
        reschedule = moved | found.moving
        plan = solve(
            snapshot, now=world.now, settings=settings, reschedule=reschedule, bounded=False
        )
    needed = tuple(machine for machine in plan.machines if moved & set(machine.pods))
    problem, on_unready = _problem(plan, world.snapshot, moved, {one.name for one in coming})
    return Simulation(plan, needed, problem, on_unready)


def _settings(solver: SolverSettings, *, consolidating: bool, policy: str) -> SolverSettings:
    settings = replace(solver, counting=replacing(solver.counting))
    if policy:
        settings = replace(settings, packing_policy=policy)
    if consolidating:
        settings = replace(settings, min_values_policy=STRICT, fills_reservations=False)
    return settings


def _going(candidates: Iterable[Candidate]) -> tuple[set[str], set[str]]:
    """(names of their nodes, UIDs of their machines)."""
    return {one.node.name for one in candidates}, {one.machine.uid for one in candidates}


def removal_by_policy(
    world: World, candidates: tuple[Candidate, ...], *, consolidating: bool
) -> dict[str, Simulation]:
    """Name of the packing policy -> what the removal needs by it, as if no pool had a policy of its own."""
    return {
        policy.value: simulate(world, candidates, consolidating=consolidating, policy=policy)
        for policy in PackingPolicy
    }


def simulate_one_machine(world: World, candidates: tuple[Candidate, ...]) -> Simulation:
    """The simulation for methods that buy one machine at most (CON-04).

    FewestNodes finds the cheapest machine that takes all pods, if there is one. LowestCost would look long for several
    that cost less, which these methods refuse; it plans only where it alone keeps machines small.
    """
    is_free = world.solver.most_node_cpu_milli is None
    policy = FEWEST_NODES if is_free else ""
    return simulate(world, candidates, consolidating=True, policy=policy)


def without_young_nodes(snapshot: Snapshot) -> Snapshot:
    """The snapshot with nodes cordoned whose consolidateAfter has not passed (SCH-54). v1alpha5 has no such wait."""
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
    """(problem, UIDs of pods on an uninitialised node); an empty problem means that all moved pods fit.

    Pods that were pending before may stay pending.
    """
    for uid, reason in plan.unschedulable.items():
        if uid in moved:
            return f"not all pods would schedule, {reason}", ()
    nodes = _by_name(snapshot.nodes)
    used = (nodes[name] for name in plan.existing if name in nodes)
    ready = {node.name for node in used if node.is_initialized or not node.is_managed}
    ready |= coming
    for name, uids in plan.existing.items():
        if name not in ready and moved & set(uids):
            return uninitialized(name), tuple(uids)
    return "", ()


def _by_name(nodes: tuple[Node, ...]) -> dict[str, Node]:
    """Kept for the last cluster, which has many simulations."""
    for of, known in _nodes:
        if of is nodes:
            return known
    return _nodes.add((nodes, {node.name: node for node in nodes}))[1]


_nodes = Recent[tuple[tuple[Node, ...], dict[str, Node]]]()


def uninitialized(name: str) -> str:
    """The problem that a node which is not initialised would take pods."""
    return f"would schedule against uninitialized node {name}"
