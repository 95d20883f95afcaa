"""Overhead of daemon sets: the resources that their pods use on new and existing nodes (SCH-46, SCH-47)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import PREFER_NO_SCHEDULE, Taint, Toleration, first_untolerated
from shared.domain.nodes import DaemonSet
from shared.domain.requirements import Requirements
from shared.domain.resources import add, subtract, sum_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import Noted, by_node
from shared.domain.workloads.pods import DAEMON_SET, Pod
from shared.errors import InvalidObject
from shared.solver.encode import Amounts, Mask, TypeTable
from shared.solver.pod_classes import effective_requests

_LABELS_SET_ON_JOIN = (keys.REGISTERED, keys.INITIALIZED)
"""Labels that every node of a pool gets, with the value "true", when it joins."""
_PREFERRED_TAINTS = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


@dataclass(frozen=True)
class DaemonLoad:
    """The daemon pods of one pool's new nodes: each daemon set with the types that run it."""

    daemons: tuple[tuple[DaemonSet, Mask], ...]
    overhead: Amounts
    """[types, resources]."""

    def total(self) -> dict[str, int]:
        """The sum over all daemon sets, for messages."""
        return sum_of(effective_requests(daemon.requests) for daemon, _ in self.daemons)


def with_running_daemons(snapshot: Snapshot) -> Snapshot:
    """The snapshot with each daemon set's requests replaced by those of its newest pod (SCH-46).

    A vertical autoscaler may have changed the pod's requests after the template was written.
    """
    newest: dict[str, Pod] = {}
    for owner, pod in chain.from_iterable(_daemons.all(by_node(snapshot.pods))):
        known = newest.get(owner)
        if known is None or (known.created_at, known.uid) < (pod.created_at, pod.uid):
            newest[owner] = pod
    found = tuple(
        replace(d, requests=newest[d.uid].requests) if d.uid in newest else d
        for d in snapshot.daemon_sets
    )
    return snapshot if found == snapshot.daemon_sets else replace(snapshot, daemon_sets=found)


def _with_daemon_set(pods: Sequence[Pod]) -> list[tuple[str, Pod]]:
    """(UID of its daemon set, pod) of daemon pods without faults."""
    return [
        (pod.owner.uid, pod)
        for pod in pods
        if pod.owner is not None and pod.owner.kind == DAEMON_SET and not pod.faults
    ]


_daemons = Noted(_with_daemon_set)


def load_on_new_nodes(
    daemon_sets: tuple[DaemonSet, ...],
    taints: tuple[Taint, ...],
    requirements: Requirements,
    table: TypeTable,
) -> DaemonLoad:
    """The daemon pods that a pool's new nodes will run, per instance type (SCH-46)."""
    found: list[tuple[DaemonSet, Mask]] = []
    overhead = np.zeros_like(table.allocatable)
    for daemon in sorted(daemon_sets, key=lambda d: (d.key, d.uid)):
        types = _types_with(daemon, taints, requirements, table)
        devices = [(_named(one.types, table), one.amounts) for one in daemon.devices or ()]
        if daemon.devices is not None:
            types &= np.logical_or.reduce([np.zeros_like(types), *(there for there, _ in devices)])
        if types.any():
            found.append((daemon, types))
            overhead[types] += table.axis.vector(effective_requests(daemon.requests))
        for there, amounts in devices:
            overhead[types & there] += table.axis.vector(amounts)
    return DaemonLoad(tuple(found), overhead)


def _named(names: Iterable[str], table: TypeTable) -> Mask:
    chosen = frozenset(names)
    return np.array([name in chosen for name in table.names], dtype=np.bool_)


def _types_with(
    daemon: DaemonSet, taints: tuple[Taint, ...], requirements: Requirements, table: TypeTable
) -> Mask:
    types = np.zeros(len(table.types), dtype=np.bool_)
    if first_untolerated(taints, (*daemon.tolerations, _PREFERRED_TAINTS)) is not None:
        return types
    for wanted in map(_without_join_labels, _alternatives(daemon)):
        if requirements.compatible(wanted, allow_undefined=keys.WELL_KNOWN):
            types |= table.matching(requirements.intersect(wanted).without(keys.HOSTNAME))
    return types


def _alternatives(daemon: DaemonSet) -> list[Requirements]:
    """One set of requirements per required term.

    An invalid term counts as one without requirements: reserving too much room is better than a daemon pod that does
    not fit.
    """
    found = []
    for term in daemon.required_terms or ((),):
        try:
            found.append(Requirements.of(term, daemon.node_selector))
        except InvalidObject:
            found.append(Requirements.of(labels=daemon.node_selector))
    return found


def _without_join_labels(wanted: Requirements) -> Requirements:
    """Requirements without the labels that the node gets when it joins."""
    rules = ((key, wanted.get(key)) for key in _LABELS_SET_ON_JOIN)
    return wanted.without(*(key for key, rule in rules if rule is not None and rule.has("true")))


def remaining_on_node(
    daemon_sets: tuple[DaemonSet, ...],
    taints: tuple[Taint, ...],
    labels: Requirements,
    there: Sequence[Pod],
    *,
    joining: bool = False,
) -> dict[str, int]:
    """Resources that daemon pods will still use on an existing node, never below zero (SCH-47).

    ``there``: its daemon pods. ``joining``: the node belongs to a pool and is not initialized yet, so it will get more
    labels.
    """
    alternatives = ((daemon, _alternatives(daemon)[0]) for daemon in daemon_sets)
    coming = [
        daemon
        for daemon, first in alternatives
        if first_untolerated(taints, daemon.tolerations) is None
        and labels.compatible(_without_join_labels(first) if joining else first)
    ]
    wanted = sum_of(effective_requests(daemon.requests) for daemon in coming)
    left = subtract(wanted, sum_of(effective_requests(pod.requests) for pod in there))
    room = {name: amount for name, amount in left.items() if amount > 0}
    return add(room, _devices_to_come(coming, labels, there))


def _devices_to_come(
    daemons: Iterable[DaemonSet], labels: Requirements, there: Sequence[Pod]
) -> dict[str, int]:
    """What the pods of daemon sets that have none here yet will take of the devices (DRA-08)."""
    present = {pod.owner.uid for pod in there if pod.owner is not None}
    kind = labels.get(keys.INSTANCE_TYPE)
    return sum_of(
        one.amounts
        for daemon in daemons
        for one in daemon.devices or ()
        if daemon.uid not in present
        and kind is not None
        and any(kind.has(name) for name in one.types)
    )
