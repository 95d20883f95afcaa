"""Machines that are not ready and would certainly take a pod: a removal that needs one is refused (CON-03). Pure.

The planner looks at all existing capacity before it buys. A pod that no ready node has room for goes to a machine that
is still starting, if that one takes it for certain: with room, labels and taints that allow it, and no rule of
topology, port or volume that could refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from shared.disruption.removals.rooms import AXIS, is_ready
from shared.domain.machines.machine import INITIALIZED
from shared.domain.snapshot import Snapshot, moving_pods
from shared.domain.workloads.by_node import any_virtual, without_node
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.domain.workloads.recommendations import created_anew
from shared.errors import InvalidObject
from shared.solver.encode import TypeTable
from shared.solver.placement.existing import ExistingTarget, existing_targets, group_by_node
from shared.solver.placement.relaxation import strict_requirements
from shared.solver.pod_classes import effective_requests
from shared.solver.pools.daemons import with_running_daemons
from shared.solver.topology.index import SelectorIndex
from shared.solver.topology.rules import required
from shared.solver.topology.selectors import Selector, affinity_selector
from shared.solver.volumes.reach import Volumes


class Unready:
    """The starting machines of one snapshot. None are known where other pods are planned too, which may fill them."""

    def __init__(self, snapshot: Snapshot) -> None:
        starting = {m.uid for m in snapshot.machines if not m.has(INITIALIZED)}
        others = any_virtual(snapshot.pods) or any(
            map(is_provisionable, without_node(snapshot.pods))
        )
        self._targets = (
            _targets(snapshot, starting)
            if starting and not others and not moving_pods(snapshot)
            else []
        )
        self._excluding: SelectorIndex[bool] = SelectorIndex()
        for selector in dict.fromkeys(_exclusions(snapshot.pods) if self._targets else ()):
            self._excluding.add(selector, True)

    def taking(self, pod: Pod) -> str:
        """The name of one that takes this pod before a machine is bought; empty: none does for certain."""
        if not self._targets or not _is_plain(pod):
            return ""
        requests = effective_requests(created_anew(pod).requests)
        if not requests.keys() <= set(AXIS.names):
            return ""
        if self._excluding.selecting(pod.namespace, pod.labels):
            return ""
        try:
            wanted = strict_requirements(pod)
        except InvalidObject:
            return ""
        amounts = AXIS.vector(requests)
        fitting = (one.name for one in self._targets
                   if (one.room >= amounts).all() and one.allows(wanted, pod.tolerations))  # fmt: skip
        return next(fitting, "")


def _targets(snapshot: Snapshot, starting: set[str]) -> list[ExistingTarget]:
    """As the planner makes them."""
    ready = {node.name for node in snapshot.nodes if is_ready(node)}
    machines = tuple(one for one in snapshot.machines if one.uid in starting)
    names = {one.node_name for one in machines} - ready
    providers = {one.provider_id for one in machines if one.provider_id}
    nodes = tuple(
        node
        for node in snapshot.nodes
        if node.name not in ready and (node.name in names or node.provider_id in providers)
    )
    part = replace(with_running_daemons(snapshot), nodes=nodes, machines=machines)
    table = TypeTable.of(snapshot.catalogue, AXIS, snapshot.unavailable, snapshot.shortages)
    bound = group_by_node(snapshot.pods, frozenset())
    found = existing_targets(part, table, bound, Volumes(part))
    return [one for one in found if one.name not in ready and (one.room >= 0).all()]


def _exclusions(pods: Iterable[Pod]) -> Iterator[Selector]:
    """The selectors of all required anti-affinity; those of namespaces by label count for every namespace."""
    for pod in pods:
        for term in required(pod.anti_affinity):
            found = affinity_selector(pod, term)
            yield found._replace(namespaces=()) if term.namespace_selector else found


def _is_plain(pod: Pod) -> bool:
    rules = pod.spread or pod.affinity or pod.anti_affinity or pod.preferred_terms or pod.gang
    special = pod.host_ports or pod.volume_claims or pod.device_claims or pod.virtual or pod.faults
    return not (rules or special) and len(pod.required_terms) <= 1
