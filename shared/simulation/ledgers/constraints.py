"""What the rules of workloads cost: all pods planned anew with a rule and without it. Pure.

Nodes whose pods may not move (do-not-disrupt, a PodDisruptionBudget that allows nothing) stay as they are; all other
pods of machines are planned on new ones. The price of a rule is what that costs more than without it, everything else
being equal. Rules work together, so their prices do not add up; ``ALL`` has the price of all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from shared.disruption.candidates import offering_prices
from shared.disruption.pod_blocks import first_block, holds, pdb_block
from shared.domain import labels as keys
from shared.domain.pools import hours
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, is_reschedulable
from shared.simulation.ledgers.allocation import charges, price_of, workload_of
from shared.simulation.repacking import without_machines
from shared.solver.solve import SolverSettings, solve

SPREAD, AFFINITY, SEPARATION = "spread", "affinity", "anti-affinity"
ZONES, ARCH, CAPACITY, TYPES = "zone", "arch", "capacity type", "instance type"
HOLD, BUDGET, ALL = "do-not-disrupt", "pod disruption budget", "all of them"
NODE_KEYS: Mapping[str, frozenset[str]] = {
    ZONES: frozenset({keys.ZONE, keys.ZONE_ID}),
    ARCH: frozenset({keys.ARCH}),
    CAPACITY: frozenset({keys.CAPACITY_TYPE}),
    TYPES: frozenset({keys.INSTANCE_TYPE, *(k for k in keys.WELL_KNOWN if "/instance-" in k)}),
}
"""Rule -> the labels of nodes that it pins."""


class Workload(NamedTuple):
    """``name``: as ``shop/Deployment/web``; ``cost``: what its pods cost now, micro-USD an hour."""

    name: str
    pods: tuple[Pod, ...]
    cost: int
    rules: tuple[str, ...]
    """Those that it has; with two or more also ``ALL``."""

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self.pods)


class Planned(NamedTuple):
    """The cluster, planned anew. ``cost``: of all its machines, micro-USD an hour; ``unplaced``: pods."""

    cost: int
    unplaced: int


class Priced(NamedTuple):
    """One rule of one workload. ``cost``: micro-USD an hour that it costs; None: without it other pods are placed, so
    the two cannot be compared. ``places``: how many pods more have a place without it."""

    workload: Workload
    rule: str
    cost: int | None
    places: int


def workloads(snapshot: Snapshot, *, now: float) -> list[Workload]:
    """Those with a rule, the dearest first. ``now``: seconds since the epoch, for annotations that end."""
    groups: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in filter(is_reschedulable, snapshot.pods):
        groups[f"{pod.namespace}/{workload_of(pod)}"].append(pod)
    costs: defaultdict[str, int] = defaultdict(int)
    for charge in charges(snapshot):
        costs[charge.workload] += charge.micro_usd_per_hour
    found = (
        Workload(name, tuple(pods), costs[name], rules)
        for name, pods in groups.items()
        if (rules := _rules(pods, snapshot, now))
    )
    return sorted(found, key=lambda one: (-one.cost, one.name))


def _rules(pods: Collection[Pod], snapshot: Snapshot, now: float) -> tuple[str, ...]:
    found = tuple(
        rule
        for rule, has in {
            SPREAD: lambda pod: bool(pod.spread),
            AFFINITY: lambda pod: bool(pod.affinity),
            SEPARATION: lambda pod: bool(pod.anti_affinity),
            **{rule: _pins(pinned) for rule, pinned in NODE_KEYS.items()},
            HOLD: lambda pod: holds(pod, now=now),
            BUDGET: lambda pod: bool(pod.node_name and pdb_block(pod, snapshot.pdbs)),
        }.items()
        if any(map(has, pods))
    )
    return (*found, ALL) if len(found) > 1 else found


def _pins(pinned: frozenset[str]) -> Callable[[Pod], bool]:
    def has(pod: Pod) -> bool:
        terms = (*pod.required_terms, *(one.expressions for one in pod.preferred_terms))
        return bool(pinned & {*pod.node_selector, *(e.key for term in terms for e in term)})

    return has


def without_rule(snapshot: Snapshot, workload: Workload, rule: str) -> Snapshot:
    """The cluster as if the workload's pods had not this rule."""
    if rule == ALL:
        for one in workload.rules:
            snapshot = snapshot if one == ALL else without_rule(snapshot, workload, one)
        return snapshot
    if rule == BUDGET:
        pdbs = (
            pdb
            for pdb in snapshot.pdbs
            if not any(pdb.protects(pod.namespace, pod.labels) for pod in workload.pods)
        )
        return replace(snapshot, pdbs=tuple(pdbs))
    uids = workload.uids
    pods = (_freed(pod, rule) if pod.uid in uids else pod for pod in snapshot.pods)
    return replace(snapshot, pods=tuple(pods))


def _freed(pod: Pod, rule: str) -> Pod:
    if rule in NODE_KEYS:
        return _unpinned(pod, NODE_KEYS[rule])
    if rule == HOLD:
        return replace(pod, do_not_disrupt="")
    field = {SPREAD: "spread", AFFINITY: "affinity", SEPARATION: "anti_affinity"}[rule]
    return replace(pod, **{field: ()})


def _unpinned(pod: Pod, pinned: frozenset[str]) -> Pod:
    """A term without expressions would select no node, so all required terms go when one has none left."""
    required = tuple(tuple(e for e in t if e.key not in pinned) for t in pod.required_terms)
    preferred = (
        one for one in pod.preferred_terms if not any(e.key in pinned for e in one.expressions)
    )
    return replace(
        pod,
        node_selector={k: v for k, v in pod.node_selector.items() if k not in pinned},
        required_terms=required if all(required) else (),
        preferred_terms=tuple(preferred),
    )


def planned(snapshot: Snapshot, settings: SolverSettings, *, now: float) -> Planned:
    """The cluster with all pods that may move on new machines."""
    held = _held(snapshot, now)
    opened = hours.at(_emptied(snapshot, held), now=now)
    plan = solve(opened, now=now, settings=settings, bounded=False)
    prices = offering_prices(snapshot.catalogue)
    kept = (price_of(m, prices) or 0 for m in snapshot.machines if m.node_name in held)
    return Planned(plan.cost_micro_usd_per_hour + sum(kept), len(plan.unschedulable))


def _held(snapshot: Snapshot, now: float) -> frozenset[str]:
    """Names of the nodes that nobody may drain."""
    on_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.node_name:
            on_node[pod.node_name].append(pod)
    return frozenset(
        name for name, pods in on_node.items() if first_block(pods, snapshot.pdbs, now=now)
    )


def held_nodes(snapshot: Snapshot, now: float) -> int:
    """How many nodes of machines nobody may drain."""
    ours = {machine.node_name for machine in snapshot.machines if machine.node_name}
    return len(_held(snapshot, now) & ours)


def _emptied(snapshot: Snapshot, held: frozenset[str]) -> Snapshot:
    """Without the machines whose pods may move; those wait."""
    nodes = {machine.node_name: machine for machine in snapshot.machines if machine.node_name}
    stay = {name for name in nodes if name in held}
    moving = without_machines(
        replace(
            snapshot,
            machines=tuple(m for m in snapshot.machines if m.node_name not in stay),
            nodes=tuple(node for node in snapshot.nodes if node.name not in stay),
            pods=tuple(pod for pod in snapshot.pods if pod.node_name not in stay),
        )
    )
    return replace(
        moving,
        machines=tuple(m for m in snapshot.machines if m.node_name in stay),
        nodes=tuple(
            sorted(
                (*moving.nodes, *(n for n in snapshot.nodes if n.name in stay)),
                key=lambda node: node.name,
            )
        ),
        pods=tuple(
            sorted(
                (*moving.pods, *(pod for pod in snapshot.pods if pod.node_name in stay)),
                key=lambda pod: pod.uid,
            )
        ),
    )


def price(
    snapshot: Snapshot, workload: Workload, base: Planned, settings: SolverSettings, *, now: float
) -> Iterator[Priced]:
    """One answer for each of its rules; each needs a plan of the whole cluster. ``base``: as of ``planned``."""
    for rule in workload.rules:
        without = planned(without_rule(snapshot, workload, rule), settings, now=now)
        places = base.unplaced - without.unplaced
        yield Priced(workload, rule, None if places else base.cost - without.cost, places)


def dearest(found: Iterable[Priced]) -> list[Priced]:
    """Those that cost most first; those without a price last."""
    return sorted(
        found,
        key=lambda one: (one.cost is None, -(one.cost or 0), one.workload.name, one.rule),
    )
