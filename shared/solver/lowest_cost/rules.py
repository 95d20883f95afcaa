"""Which instance types, zones and capacity types a class of pods may use in a pool, sizes aside.

The answer comes from the same ``Admitter`` that builds machines, asked with a pod of no size and
without topology, so the two cannot disagree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shared.domain.expressions import Toleration
from shared.domain.requirements import Requirements
from shared.domain.workloads.pods import Pod
from shared.errors import InvalidObject
from shared.solver.encode import Mask
from shared.solver.placement.planned_machines import Admission, Admitter, OpenClaim
from shared.solver.placement.relaxation import pod_requirements, relax, strict_requirements
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate
from shared.solver.ports import HostPort
from shared.solver.topology.counting import Topology

_MOST_RELAXATIONS = 20


_Question = tuple[str, Requirements, tuple[Toleration, ...], tuple[HostPort, ...]]


class Allowed(NamedTuple):
    """Masks over the type table's types, zones and capacity types."""

    types: Mask
    zones: Mask
    kinds: Mask


class Rules:
    """Asks for empty machines, once for all classes that differ in nothing that matters here."""

    def __init__(self, *, best_effort: bool) -> None:
        self._admitter = Admitter(Topology(lambda _: (), {}, {}), best_effort=best_effort)
        self._known: dict[_Question, Allowed | None] = {}

    def allowed(self, pods: PodClass, template: PoolTemplate) -> Allowed | None:
        """None: no machine of this pool may hold the class."""
        pod = pods.pod
        at = (template.pool.key, pods.requirements, pod.tolerations, pod.host_ports)
        if at not in self._known:
            self._known[at] = self._ask(pods, template)
        return self._known[at]

    def _ask(self, pods: PodClass, template: PoolTemplate) -> Allowed | None:
        nothing = np.zeros_like(pods.requests)
        sizeless = replace(pods, requests=nothing, amounts=tuple(nothing.tolist()))
        claim = OpenClaim(
            template,
            "hostname-placeholder-0000",
            template.requirements,
            template.all_types,
            nothing,
        )
        found = self._admitter.admit(claim, sizeless, 1)
        if not isinstance(found, Admission):
            return None
        zones = template.table.zone_mask(found.requirements, template.zones)
        return Allowed(found.types.mask, zones, template.table.capacity_mask(found.requirements))


def with_relaxations(pods: PodClass, *, tolerate_preferred: bool) -> list[PodClass]:
    """The class, and what it becomes as it gives up one preference after the other."""
    found = [pods]
    while len(found) < _MOST_RELAXATIONS:
        pod: Pod | None = relax(found[-1].pod, tolerate_preferred=tolerate_preferred)
        if pod is None:
            break
        try:
            wanted, strict = pod_requirements(pod), strict_requirements(pod)
        except InvalidObject:
            break
        kind = (pods.kind, len(found))
        found.append(replace(pods, kind=kind, pod=pod, requirements=wanted, strict=strict))
    return found
