"""Daemon set pods take room on every node before any other pod does (SCH-46, SCH-47)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import PREFER_NO_SCHEDULE, Taint, Toleration, first_untolerated
from shared.domain.nodes import DaemonSet
from shared.domain.pods import Pod
from shared.domain.requirements import Requirements
from shared.domain.resources import Resources, subtract, sum_of
from shared.domain.snapshot import Snapshot
from shared.errors import InvalidObject
from shared.solver.encode import Amounts, Mask, TypeTable
from shared.solver.pod_classes import effective_requests

_PREFERRED_TAINTS = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


@dataclass(frozen=True)
class DaemonLoad:
    """The daemon pods of one pool's new nodes: which types get which of them."""

    daemons: tuple[tuple[DaemonSet, Mask], ...]
    overhead: Amounts
    """[types, resources]."""

    def total(self) -> dict[str, int]:
        """All of them together, for messages."""
        return sum_of(effective_requests(daemon.requests) for daemon, _ in self.daemons)


def with_running_daemons(snapshot: Snapshot) -> Snapshot:
    """SCH-46: a daemon set counts with what its newest pod asks for, which an autoscaler of requests
    may have changed since the template was written."""
    newest: dict[str, Pod] = {}
    for pod in snapshot.pods:
        if pod.owner is not None and pod.is_daemon and not pod.faults:
            known = newest.get(pod.owner.uid)
            if known is None or (known.created_at, known.uid) < (pod.created_at, pod.uid):
                newest[pod.owner.uid] = pod
    found = tuple(
        replace(d, requests=newest[d.uid].requests) if d.uid in newest else d
        for d in snapshot.daemon_sets
    )
    return snapshot if found == snapshot.daemon_sets else replace(snapshot, daemon_sets=found)


def load_on_new_nodes(
    daemon_sets: tuple[DaemonSet, ...],
    taints: tuple[Taint, ...],
    requirements: Requirements,
    table: TypeTable,
) -> DaemonLoad:
    """SCH-46 for one pool."""
    found: list[tuple[DaemonSet, Mask]] = []
    overhead = np.zeros_like(table.allocatable)
    for daemon in sorted(daemon_sets, key=lambda d: (d.key, d.uid)):
        types = _types_with(daemon, taints, requirements, table)
        if types.any():
            found.append((daemon, types))
            overhead[types] += table.axis.vector(effective_requests(daemon.requests))
    return DaemonLoad(tuple(found), overhead)


def _types_with(
    daemon: DaemonSet, taints: tuple[Taint, ...], requirements: Requirements, table: TypeTable
) -> Mask:
    types = np.zeros(len(table.types), dtype=np.bool_)
    if first_untolerated(taints, (*daemon.tolerations, _PREFERRED_TAINTS)) is not None:
        return types
    for wanted in _alternatives(daemon):
        if requirements.compatible(wanted, allow_undefined=keys.WELL_KNOWN):
            types |= table.matching(requirements.intersect(wanted).without(keys.HOSTNAME))
    return types


def _alternatives(daemon: DaemonSet) -> list[Requirements]:
    """One set of requirements per required term. A broken term counts as one that asks nothing:
    room that stays free is better than a daemon pod without a place."""
    found = []
    for term in daemon.required_terms or ((),):
        try:
            found.append(Requirements.of(term, daemon.node_selector))
        except InvalidObject:
            found.append(Requirements.of(labels=daemon.node_selector))
    return found


def remaining_on_node(
    daemon_sets: tuple[DaemonSet, ...],
    taints: tuple[Taint, ...],
    labels: Requirements,
    already_there: Resources,
) -> dict[str, int]:
    """SCH-47: what daemon pods still want on an existing node, never below zero per resource."""
    wanted = sum_of(
        effective_requests(daemon.requests)
        for daemon in daemon_sets
        if first_untolerated(taints, daemon.tolerations) is None
        and labels.compatible(_alternatives(daemon)[0])
    )
    left = subtract(wanted, already_there)
    return {name: amount for name, amount in left.items() if amount > 0}
