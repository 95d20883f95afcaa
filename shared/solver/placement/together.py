"""Where pods that must share a domain begin on existing capacity.

The first of them decides the domain of the others (SCH-80). Karpenter gives it to the first target with room; the
others then wait, or need new machines in that domain, though another domain has room for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shared.solver.encode import Amounts, Indices
from shared.solver.placement.target_columns import TargetColumns
from shared.solver.pod_classes import PodClass
from shared.solver.topology.counting import Check, Topology
from shared.solver.topology.groups import Group
from shared.solver.topology.rules import AFFINITY

Waiting = list[tuple[PodClass, int]]
"""Classes, and how many of their pods wait, in queue order."""


class Together:
    """The pods that wait, by the affinity of which they are the first pods."""

    def __init__(self, topology: Topology, queue: Iterable[tuple[PodClass, list[str]]]) -> None:
        self._topology = topology
        self._waiting: dict[Group, Waiting] = {}
        for pods, uids in queue:
            for check in self._starting(pods):
                self._waiting.setdefault(check.group, []).append((pods, len(uids)))

    def in_order(self, pods: PodClass, columns: TargetColumns, targets: Indices) -> Indices:
        """The targets, those first whose domain has room for most of the pods that must share it."""
        for check in self._starting(pods) if len(targets) > 1 else ():
            waiting = self._waiting.get(check.group, [])
            held = _held(columns, check.group.rule.key, waiting)[targets]
            targets = targets[np.argsort(-held, kind="stable")]
        return targets

    def _starting(self, pods: PodClass) -> list[Check]:
        if not pods.pod.affinity:
            return []
        return [one for one in self._topology.rules(pods).checks if _starts(one)]


def _starts(check: Check) -> bool:
    of_own = check.group.rule.kind is AFFINITY and check.selects_pod
    return of_own and check.group.starts(check.pod_domains)


def _held(columns: TargetColumns, key: str, waiting: Waiting) -> Amounts:
    """[targets]: how many of the waiting pods the target's domain has room for, each class after those before it."""
    order, begins, domain = columns.by_domain(key)
    room = columns.room[:, order]
    held = np.zeros(len(begins), dtype=np.int64)
    for pods, count in waiting:
        asked = pods.requests > 0
        fitting = (room[asked] // pods.requests[asked, np.newaxis]).min(axis=0)
        places = np.where(columns.suited(pods)[order], np.clip(fitting, 0, count), 0)
        sums = np.cumsum(places)
        before = sums - places
        before -= before[begins][domain]
        taken = np.clip(count - before, 0, places)
        held += np.add.reduceat(taken, begins)
        room -= taken * pods.requests[:, np.newaxis]
    found = np.empty(len(order), dtype=np.int64)
    found[order] = held[domain]
    return found
