"""A cluster as arrays for global consolidation: classes of pods, free resources of nodes, allowed nodes, worth of pods.

The arrays come from the planner's own encodings, so sizes, daemon overhead, volumes and labels count as in a plan.
Topology rules are approximated: a pod with a rule by zone stays in its zone, and one with a rule by host name has a
limit per node. Errors of this approximation are found when the planner proves the result.

``worth``: the hourly price of the pod's share of a well-filled new machine. What may go wrong: no offering fits a
class, or the linear program has no solution; then its pods are worth nothing and may only move to existing nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shared.disruption.candidates import pods_by_node
from shared.disruption.records import Candidate, World
from shared.domain import labels as keys
from shared.domain.pools.usage import replacing
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, is_reschedulable
from shared.errors import InvalidObject
from shared.solver.encode import LARGEST, Amounts, Indices, Mask, ResourceAxis, TypeTable
from shared.solver.lowest_cost.bound.dual import worth
from shared.solver.lowest_cost.bound.lower import extended_columns
from shared.solver.lowest_cost.demand import Batch, demand_of
from shared.solver.lowest_cost.rules import Rules
from shared.solver.placement.existing import ExistingTarget, existing_targets, group_by_node
from shared.solver.placement.planned_machines import BEST_EFFORT
from shared.solver.placement.relaxation import IGNORE, without_preferences
from shared.solver.pod_classes import ClassRegistry, PodClass
from shared.solver.pools.daemons import with_running_daemons
from shared.solver.pools.templates import PoolTemplate, usable_templates
from shared.solver.topology.rules import AFFINITY, ANTI_AFFINITY, SPREAD, owned_rules
from shared.solver.topology.selectors import label_keys
from shared.solver.volumes.reach import Volumes

NO_ROW = -1
"""No row: of a candidate whose node takes no pods, of an invalid pod, or of a node that is not asked about."""


@dataclass(slots=True, eq=False)
class ClusterArrays:
    """``nodes`` are those that may take pods; amounts are those of the planner."""

    candidates: tuple[Candidate, ...]
    at: Indices
    """[candidates]: row of its node, or NO_ROW."""
    load: Amounts
    """[candidates, classes]: number of its pods."""
    price: Amounts
    """[candidates]: micro-USD per hour; 0: not known."""
    zone: Indices
    """[candidates]: number of its zone."""
    names: tuple[str, ...]
    """[nodes]"""
    node_zone: Indices
    """[nodes]: number of its zone."""
    room: Amounts
    """[nodes, resources]: free amounts."""
    there: Amounts
    """[nodes, classes]: pods that count for limits per node."""
    requests: Amounts
    """[classes, resources]"""
    may: Mask
    """[classes, nodes]: labels and taints allow the class on the node."""
    most: Amounts
    """[classes]: the most pods on one node."""
    stays_in_zone: Mask
    """[classes]: has a rule by zone."""
    worth: Amounts
    """[classes]: micro-USD per hour of one pod."""
    classes: tuple[PodClass, ...]

    @property
    def pods(self) -> Amounts:
        """[candidates]: number of pods that move."""
        found: Amounts = self.load.sum(axis=1)
        return found

    @property
    def excess(self) -> Amounts:
        """[candidates]: its price minus the worth of its pods."""
        found: Amounts = self.price - self.load @ self.worth
        return found


def encode_cluster(
    world: World, candidates: tuple[Candidate, ...], snapshot: Snapshot
) -> ClusterArrays:
    """The arrays of these candidates. ``snapshot``: the world's, with nodes that take no pods cordoned."""
    snapshot = with_running_daemons(snapshot)
    encoded = _Encoded(world, snapshot)
    targets = encoded.open_targets()
    names = {target.name: row for row, target in enumerate(targets)}
    on_nodes = encoded.count(list(names))
    on_candidates = encoded.count([c.node.name for c in candidates], moving=True)
    zones: dict[str, int] = {}
    number = [zones.setdefault(_zone(node.labels), len(zones)) for node in snapshot.nodes]
    zone_of = dict(zip((node.name for node in snapshot.nodes), number, strict=True))
    classes = encoded.classes
    return ClusterArrays(
        candidates=candidates,
        at=np.array([names.get(c.node.name, NO_ROW) for c in candidates], dtype=np.intp),
        load=on_candidates,
        price=np.array([c.price_micro_usd_per_hour or 0 for c in candidates], dtype=np.int64),
        zone=np.array([zone_of[c.node.name] for c in candidates], dtype=np.intp),
        names=tuple(names),
        node_zone=np.array([zone_of[name] for name in names], dtype=np.intp),
        room=_stacked([t.room for t in targets], len(encoded.axis.names)),
        there=on_nodes,
        requests=_stacked([one.requests for one in classes], len(encoded.axis.names)),
        may=_allowed(classes, targets),
        most=np.array([_most_per_node(one.pod) for one in classes], dtype=np.int64),
        stays_in_zone=np.array([_stays_in_zone(one.pod) for one in classes], dtype=np.bool_),
        worth=encoded.worth(on_candidates.sum(axis=0)),
        classes=tuple(classes),
    )


class _Encoded:
    """A snapshot encoded with the planner's classes. Invalid pods have no class; the planner reports them later."""

    def __init__(self, world: World, snapshot: Snapshot) -> None:
        self._world, self._snapshot = world, snapshot
        self._pods = pods_by_node([pod for pod in snapshot.pods if is_reschedulable(pod)])
        moving = [pod for pods in self._pods.values() for pod in pods]
        self._volumes = Volumes(snapshot)
        self.axis = ResourceAxis(
            [*(p.requests for p in moving), *(d.requests for d in snapshot.daemon_sets)]
        )
        self._table = TypeTable.of(
            snapshot.catalogue, self.axis, snapshot.unavailable, snapshot.shortages
        )
        selected = label_keys(snapshot.pods)
        self._registry = ClassRegistry(self.axis, selected, self._volumes.resolved)
        self._rows: dict[PodClass, int] = {}
        self._row_of = np.array([self._row(pod) for pod in moving], dtype=np.intp)
        self._terminating = np.array([pod.terminating for pod in moving], dtype=np.bool_)
        sizes = [len(pods) for pods in self._pods.values()]
        self._node_of = np.repeat(np.arange(len(sizes)), sizes)

    @property
    def classes(self) -> list[PodClass]:
        return list(self._rows)

    def _row(self, pod: Pod) -> int:
        """The number of its class; NO_ROW: it is invalid."""
        if self._world.solver.preference_policy == IGNORE:
            pod = without_preferences(pod)
        try:
            self._volumes.resolve(pod)
            found = self._registry.intern(pod)
        except InvalidObject:
            return NO_ROW
        return self._rows.setdefault(found, len(self._rows))

    def open_targets(self) -> list[ExistingTarget]:
        bound = group_by_node(self._snapshot.pods, frozenset())
        found = existing_targets(self._snapshot, self._table, bound, self._volumes)
        nodes = {node.name for node in self._snapshot.nodes}
        return [target for target in found if target.initialized and target.name in nodes]

    def count(self, nodes: list[str], *, moving: bool = False) -> Amounts:
        """[nodes, classes]: number of pods. ``moving``: without terminating pods."""
        at = {name: row for row, name in enumerate(nodes)}
        to = np.array([at.get(name, NO_ROW) for name in self._pods], dtype=np.intp)[self._node_of]
        counted = (to != NO_ROW) & (self._row_of != NO_ROW)
        if moving:
            counted &= ~self._terminating
        width = len(self._rows)
        flat = to[counted] * width + self._row_of[counted]
        found = np.bincount(flat, minlength=len(nodes) * width)
        return found.astype(np.int64).reshape(len(nodes), width)

    def worth(self, counts: Amounts) -> Amounts:
        """[classes]: the worth in the cheapest pool, rounded down; 0 where no offering fits."""
        found = np.full(len(counts), LARGEST, dtype=np.int64)
        rules = Rules(best_effort=self._world.solver.min_values_policy == BEST_EFFORT)
        templates, _ = usable_templates(
            self._snapshot, self._table, replacing(self._world.solver.counting)
        )
        for template in templates:
            for row, price in self._worth_in(template, rules, counts).items():
                found[row] = min(found[row], price)
        return np.where(found == LARGEST, 0, found)

    def _worth_in(self, template: PoolTemplate, rules: Rules, counts: Amounts) -> Mapping[int, int]:
        batches = []
        for one, row in self._rows.items():
            allowed = rules.allowed(one, template) if counts[row] else None
            if allowed is not None:
                most = _most_per_node(one.pod)
                group = row if most < LARGEST else None
                uids = [""] * int(counts[row])
                batches.append(Batch(one, uids, allowed, group=group, most_per_machine=most))
        if not batches:
            return {}
        demand = demand_of(batches, template, self._world.solver.most_node_cpu_milli)
        extended = extended_columns(self.axis, demand.problem.requests)
        found = worth(demand.problem, extended)
        if found is None:
            return {}
        fits = np.asarray(demand.problem.fits.any(axis=1))
        return {
            self._rows[batch.pods]: int(found.pods[at])
            for at, members in enumerate(demand.members)
            if fits[at]
            for batch in members
        }


def _allowed(classes: list[PodClass], targets: list[ExistingTarget]) -> Mask:
    """[classes, nodes]: labels and taints allow it. Computed once for nodes with equal taints and relevant labels."""
    asked = sorted({wanted.key for one in classes for wanted in one.requirements})
    kinds: dict[object, int] = {}
    firsts: list[ExistingTarget] = []
    codes = np.zeros(len(targets), dtype=np.intp)
    for at, target in enumerate(targets):
        kind = (target.taints, tuple(target.labels.get(key) for key in asked))
        codes[at] = kinds.setdefault(kind, len(kinds))
        if codes[at] == len(firsts):
            firsts.append(target)
    found = np.zeros((len(classes), len(targets)), dtype=np.bool_)
    known: dict[object, Mask] = {}
    for row, one in enumerate(classes):
        question = (one.requirements, one.pod.tolerations)
        if question not in known:
            verdicts = [target.allows(*question) for target in firsts]
            known[question] = np.array(verdicts, dtype=np.bool_)
        found[row] = known[question][codes]
    return found


def _most_per_node(pod: Pod) -> int:
    """The most pods of its kind on one node, by host ports and rules that select itself; LARGEST: no limit."""
    if pod.host_ports:
        return 1
    found = LARGEST
    for rule in owned_rules(pod):
        if rule.key == keys.HOSTNAME and rule.selector.selects(pod.namespace, pod.labels):
            if rule.kind == ANTI_AFFINITY:
                found = 1
            elif rule.kind == SPREAD:
                found = min(found, max(rule.max_skew, 1))
    return found


def _stays_in_zone(pod: Pod) -> bool:
    kinds = (SPREAD, AFFINITY, ANTI_AFFINITY)
    return any(rule.key == keys.ZONE and rule.kind in kinds for rule in owned_rules(pod))


def _zone(labels: Mapping[str, str]) -> str:
    return labels.get(keys.ZONE, "")


def _stacked(rows: list[Amounts], width: int) -> Amounts:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)
