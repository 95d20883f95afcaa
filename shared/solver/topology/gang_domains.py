"""The values of a label that a gang may be confined to, and the pods of the gang confined to one of them (SCH-115)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from shared.domain.expressions import Expression
from shared.domain.pools.usage import Counting
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.encode import ResourceAxis, TypeTable
from shared.solver.pools.templates import PoolTemplate, domains_of, usable_templates

MOST_VALUES = 16
"""A plan is made with each of them."""


class GangDomains:
    """The values in one snapshot. Nothing is computed before it is asked for: few snapshots have such gangs."""

    def __init__(self, snapshot: Snapshot, counting: Counting) -> None:
        self._snapshot = snapshot
        self._counting = counting

    def values(self, key: str) -> list[str]:
        """What new machines may have and nodes have, in order; the first ``MOST_VALUES``."""
        known = {value for template in self._templates for value in domains_of(template, key)}
        known |= {
            n.labels[key] for n in self._snapshot.nodes if key in n.labels and not n.terminating
        }
        return sorted(known)[:MOST_VALUES]

    def of_pods(self, key: str, pods: Iterable[Pod]) -> list[str]:
        """Where pods are that have a node: those with most pods first."""
        found = Counter(
            self._nodes[pod.node_name][key]
            for pod in pods
            if key in self._nodes.get(pod.node_name, {})
        )
        return sorted(found, key=lambda value: (-found[value], value))

    @cached_property
    def _templates(self) -> list[PoolTemplate]:
        snapshot = self._snapshot
        table = TypeTable.of(
            snapshot.catalogue, ResourceAxis([]), snapshot.unavailable, snapshot.shortages
        )
        return usable_templates(snapshot, table, self._counting)[0]

    @cached_property
    def _nodes(self) -> dict[str, dict[str, str]]:
        return {node.name: node.labels for node in self._snapshot.nodes}


def confined(pod: Pod, to: Expression | None) -> Pod:
    """The pod as if it required the label itself."""
    if to is None:
        return pod
    return pod.narrowed_to(tuple((*term, to) for term in pod.required_terms or ((),)))
