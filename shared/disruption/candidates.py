"""Candidates: the machines that may be disrupted, and why the others may not (DIS-10..16)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from shared.disruption.pod_blocks import Block, first_block
from shared.disruption.records import BLOCKED, COST_UNIT, Candidate, Rejection
from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue, InstanceType
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import by_node
from shared.domain.workloads.kept import Known, Recent, same
from shared.domain.workloads.pdbs import PodDisruptionBudget
from shared.domain.workloads.pods import Pod, is_reschedulable
from shared.domain.workloads.scale_down import (
    KARPENTERS,
    SCALE_DOWN_DISABLED,
    ScaleDownRules,
    utilization_percent,
)

_MOST = 10 * COST_UNIT
_PRIORITY_UNITS = 4
"""A priority counts 1/2^25, which is four units."""


def eviction_cost(pod: Pod) -> int:
    """1 + deletion cost / 2^27 + priority / 2^25, limited to -10..10."""
    cost = COST_UNIT + pod.deletion_cost + _PRIORITY_UNITS * pod.priority
    return max(-_MOST, min(_MOST, cost))


def disruption_cost(pods: Iterable[Pod]) -> int:
    """A node's cost: 1 + the eviction costs of its reschedulable pods; negative ones and virtual pods count as zero."""
    moving = (pod for pod in pods if is_reschedulable(pod) and not pod.virtual)
    return COST_UNIT + sum(max(0, eviction_cost(pod)) for pod in moving)


def is_empty(pods: Iterable[Pod]) -> bool:
    """True without reschedulable pods of positive eviction cost (DIS-16): daemon, mirror and finished pods are none,
    virtual pods always are."""
    return not any(
        is_reschedulable(pod) and (pod.virtual or eviction_cost(pod) > 0) for pod in pods
    )


NO_NODE = "nodeclaim does not have an associated node"
NOT_INITIALIZED = "node isn't initialized"
LEAVING = "node is deleting or marked for deletion"
NOMINATED = "node is nominated for a pending pod"
ANNOTATED = f'disruption is blocked through the "{keys.DO_NOT_DISRUPT}" annotation'
BUSY = "candidate is already being disrupted"
NO_POOL = "nodepool not found"

Prices = Mapping[tuple[str, str, str], int]
"""(instance type, zone, capacity type) -> micro-USD per hour; see ``price_in``."""


class Survey(NamedTuple):
    """Every machine of the snapshot, either as a candidate or as a rejection."""

    candidates: tuple[Candidate, ...]
    rejections: tuple[Rejection, ...]


def survey(
    snapshot: Snapshot,
    prices: Prices,
    *,
    nominated: Set[str],
    busy: Set[str],
    now: float,
    rules: ScaleDownRules = KARPENTERS,
) -> Survey:
    """Sorts all machines into candidates and rejections, in the snapshot's order.

    ``nominated``: names of nodes and machines nominated for pods. ``busy``: UIDs of machines in running commands.
    ``now``: seconds since the epoch. ``rules``: of Cluster Autoscaler.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    pools = {pool.key: pool for pool in snapshot.pools}
    pods = by_node(snapshot.pods)
    pdbs = _as_before(snapshot.pdbs)
    _known.forget_gone(len(nodes))
    candidates, rejections = [], []
    for machine in snapshot.machines:
        node, pool = nodes.get(machine.node_name), pools.get(machine.pool_key)
        if (
            node is not None
            and machine.uid not in busy
            and not {machine.name, node.name} & nominated
        ):
            held = _held(node.name, pods.get(node.name, ()))
            if (found := held.made_of(machine, node, pool, pdbs, prices, rules)) is not None:
                candidates.append(found)
                continue
        text = BUSY if machine.uid in busy else _why_not(machine, node, pool, nominated, rules)
        if text or node is None or pool is None:
            name = node.name if node else ""
            rejections.append(Rejection(machine.key, name, BLOCKED, text))
            continue
        candidates.append(
            _candidate(machine, node, pool, pods.get(node.name, ()), pdbs, prices, now, rules)
        )
    return Survey(tuple(candidates), tuple(rejections))


def pods_by_node(pods: Sequence[Pod]) -> Mapping[str, list[Pod]]:
    """Bound pods by the name of their node, each list in the given order."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node_name:
            found[pod.node_name].append(pod)
    return found


def offering_prices(catalogue: Catalogue) -> Prices:
    """The price of each offering. Kept for the last catalogue."""
    for of, known in _prices:
        if of is catalogue.types:
            return known
    found = {
        (kind.name, offering.zone, offering.capacity_type): offering.price_micro_usd_per_hour
        for kind in catalogue.types
        for offering in kind.offerings
    }
    for kind in catalogue.types:
        for own in kind.for_pools:
            for (zone, capacity_type, price), pool in product(own.prices, own.pools):
                found[kind.name, _for_pool(zone, pool), capacity_type] = price
    return _prices.add((catalogue.types, found))[1]


_prices = Recent[tuple[tuple[InstanceType, ...], Prices]]()


def _for_pool(zone: str, pool_key: str) -> str:
    """Where a pool has a price of its own. No zone has such a name."""
    return f"{zone}:{pool_key}"


def price_in(prices: Prices, machine: Machine) -> int | None:
    """Of the machine's offering, in micro-USD per hour; None when it is not known."""
    kind, zone, capacity_type = machine.instance_type, machine.zone, machine.capacity_type
    own = prices.get((kind, _for_pool(zone, machine.pool_key), capacity_type))
    return prices.get((kind, zone, capacity_type)) if own is None else own


def _why_not(
    machine: Machine,
    node: Node | None,
    pool: NodePool | None,
    nominated: Set[str],
    rules: ScaleDownRules,
) -> str:
    """The reason why a machine may not be disrupted (DIS-10); empty for a candidate."""
    if node is None:
        return NO_NODE
    if machine.terminating or node.terminating:
        return LEAVING
    if not machine.has(INITIALIZED):
        return NOT_INITIALIZED
    if {machine.name, node.name} & nominated:
        return NOMINATED
    if node.annotations.get(keys.DO_NOT_DISRUPT) == "true":
        return ANNOTATED
    if rules.honors_annotations and node.annotations.get(SCALE_DOWN_DISABLED) == "true":
        return f'disruption is blocked through the "{SCALE_DOWN_DISABLED}" annotation'
    return "" if pool is not None else NO_POOL


def _price(machine: Machine, prices: Prices) -> int | None:
    """Micro-USD per hour; zero in a capacity reservation, which is paid for anyway (CON-07)."""
    if machine.capacity_type == keys.RESERVED:
        return 0
    return price_in(prices, machine)


def _too_used(node: Node, pool: NodePool, pods: Sequence[Pod], rules: ScaleDownRules) -> str:
    """Why the node is used too much to be consolidated; empty: it is not."""
    threshold = pool.utilization_threshold
    threshold = rules.threshold_percent if threshold is None else threshold
    if threshold is None:
        return ""
    used = utilization_percent(pods, node.allocatable)
    return f"utilization is {used}%, not below {threshold}%" if used >= threshold else ""


def _candidate(
    machine: Machine,
    node: Node,
    pool: NodePool,
    pods: Sequence[Pod],
    pdbs: tuple[PodDisruptionBudget, ...],
    prices: Prices,
    now: float,
    rules: ScaleDownRules,
) -> Candidate:
    held = _held(node.name, pods)
    block = _block(held, pdbs, now, rules)
    found = Candidate(
        machine=machine,
        node=node,
        pool=pool,
        pods=held.moving,
        price_micro_usd_per_hour=_price(machine, prices),
        cost=held.cost,
        empty=held.empty,
        too_used=_too_used(node, pool, pods, rules),
        blocker=block.text if block else "",
        blocking_pod=block.pod.key if block else "",
    )
    # Where time decides what blocks it, no block is kept.
    inputs = machine, node, pool, pdbs, prices, rules
    held.candidate = (inputs, found) if held.block is not None else None
    return found


@dataclass(slots=True, eq=False)
class _Held:
    """What follows from the pods of one node. ``block``: with the budgets and rules with which it was looked for;
    ``candidate``: with the other records that it was made of."""

    pods: Sequence[Pod]
    moving: tuple[Pod, ...]
    cost: int
    empty: bool
    block: tuple[tuple[PodDisruptionBudget, ...], ScaleDownRules, Block | None] | None = None
    candidate: tuple[Sequence[object], Candidate] | None = None

    def made_of(self, *inputs: object) -> Candidate | None:
        """The candidate that was made of the very same records."""
        known = self.candidate
        return known[1] if known is not None and same(known[0], inputs) else None


_known = Known[str, _Held]()
"""Node name -> what its pods say: from one pass to the next most nodes keep the very same records of pods."""


def _held(node: str, pods: Sequence[Pod]) -> _Held:
    known = _known.get(node)
    if known is not None and same(known.pods, pods):
        return known
    moving = sorted((pod for pod in pods if is_reschedulable(pod)), key=lambda pod: pod.uid)
    found = _Held(pods, tuple(moving), disruption_cost(moving), is_empty(pods))
    _known[node] = found
    return found


def _block(
    held: _Held, pdbs: tuple[PodDisruptionBudget, ...], now: float, rules: ScaleDownRules
) -> Block | None:
    """Kept while budgets and rules are the same, unless an annotation has a duration."""
    known = held.block
    if known is not None and known[0] is pdbs and known[1] == rules:
        return known[2]
    found = first_block(held.pods, pdbs, now=now, rules=rules)
    if not any(pod.do_not_disrupt not in ("", "true", "false") for pod in held.pods):
        held.block = pdbs, rules, found
    return found


_budgets = Recent[tuple[PodDisruptionBudget, ...]]()


def _as_before(pdbs: tuple[PodDisruptionBudget, ...]) -> tuple[PodDisruptionBudget, ...]:
    """The tuple of the last pass if it has the very same records: each snapshot makes its own."""
    for before in _budgets:
        if same(before, pdbs):
            return before
    return _budgets.add(pdbs)
