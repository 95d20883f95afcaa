"""Daemon set pods take room on every node before any other pod does (SCH-46, SCH-47)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import PREFER_NO_SCHEDULE, Taint, Toleration, first_untolerated
from shared.domain.nodes import DaemonSet
from shared.domain.requirements import Requirements
from shared.domain.resources import Resources, subtract, sum_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.errors import InvalidObject
from shared.solver.encode import Amounts, Mask, TypeTable
from shared.solver.pod_classes import effective_requests

_COME_WITH_JOINING = (keys.REGISTERED, keys.INITIALIZED)
"""Labels that every new node of ours gets with the value "true"."""
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
    for wanted in map(_once_joined, _alternatives(daemon)):
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


def _once_joined(wanted: Requirements) -> Requirements:
    """What is still to be met when the node has joined and the startup taints are gone."""
    rules = ((key, wanted.get(key)) for key in _COME_WITH_JOINING)
    return wanted.without(*(key for key, rule in rules if rule is not None and rule.has("true")))


def remaining_on_node(
    daemon_sets: tuple[DaemonSet, ...],
    taints: tuple[Taint, ...],
    labels: Requirements,
    already_there: Resources,
    *,
    joining: bool = False,
) -> dict[str, int]:
    """SCH-47: what daemon pods still want on an existing node, never below zero per resource.

    ``joining``: it is one of ours that is not initialized yet, so more labels will come.
    """
    alternatives = ((daemon, _alternatives(daemon)[0]) for daemon in daemon_sets)
    wanted = sum_of(
        effective_requests(daemon.requests)
        for daemon, first in alternatives
        if first_untolerated(taints, daemon.tolerations) is None
        and labels.compatible(_once_joined(first) if joining else first)
    )
    left = subtract(wanted, already_there)
    return {name: amount for name, amount in left.items() if amount > 0}
