"""Pods that the planner cannot tell apart, planned as one: equal requests, rules and selected
labels.

A deployment of 400 replicas is one class, so feasibility is computed once. Labels count only as far
as some selector of this plan looks at them; otherwise each StatefulSet pod would be a class of its
own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from shared.domain.labels import normalise
from shared.domain.requirements import Requirements
from shared.domain.resources import PODS, Resources, at_least
from shared.domain.workloads.pods import Pod
from shared.solver.encode import Amounts, ResourceAxis
from shared.solver.placement.relaxation import pod_requirements, strict_requirements
from shared.solver.volumes.reach import PodVolumes, choices, one_by_one, reachable

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def effective_requests(requests: Resources) -> Resources:
    """SCH-60: every pod takes one pod slot, also when its record does not say so."""
    return requests if requests.get(PODS, 0) >= 1 else at_least(requests, {PODS: 1})


@dataclass(slots=True, eq=False)
class PodClass:
    """One class. ``pod`` stands for all its members; identity is equality."""

    index: int
    kind: Hashable
    """Classes of one kind differ in nothing but their requests."""
    pod: Pod
    requests: Amounts
    amounts: tuple[int, ...]
    """``requests`` as Python's integers."""
    requirements: Requirements
    """With the heaviest preference (SCH-20) and the place of the volumes (SCH-93)."""
    strict: Requirements
    """Without preferences and volumes; topology counts its domains by these (SCH-95)."""
    attaches: bool = False
    """Has it volumes that some node limits the number of (SCH-91)? Such pods are placed one by one."""
    others: tuple[PodClass, ...] = ()
    """The same pods with their volumes' other alternatives, to be tried after this one (SCH-93)."""
    errors: dict[str, str] = field(default_factory=dict)
    """Pool name -> why this class never fits a new machine of it. Machines only fill up in a plan,
    so
    an answer that does not depend on topology stays true."""

    @property
    def has_topology(self) -> bool:
        return bool(self.pod.spread or self.pod.affinity or self.pod.anti_affinity)


class ClassRegistry:
    """Finds the class of a pod. ``label_keys`` are the label keys that some selector reads,
    ``volumes`` what is known of the pods with claims, by UID."""

    def __init__(
        self,
        axis: ResourceAxis,
        label_keys: frozenset[str],
        volumes: Mapping[str, PodVolumes] | None = None,
    ) -> None:
        self.volumes = volumes or {}
        self._axis = axis
        self._label_keys = label_keys
        self._found: dict[tuple[int, tuple[tuple[str, int], ...]], PodClass] = {}
        self._kinds: dict[tuple[bytes, object], int] = {}
        self._sizes: dict[tuple[tuple[str, int], ...], Amounts] = {}
        self._count = 0

    def __iter__(self) -> Iterator[PodClass]:
        return iter(self._found.values())

    def intern(self, pod: Pod) -> PodClass:
        """The class of this pod. Raises InvalidObject when one of its expressions is wrong, or when
        it excludes the place of its volumes."""
        volumes = self.volumes.get(pod.uid) if pod.volume_claims else None
        rules = (self._rules(pod), volumes.identity if volumes else None)
        kind = self._kinds.setdefault(rules, len(self._kinds))
        identity = (kind, tuple(sorted(pod.requests.items())))
        known = self._found.get(identity)
        if known is None:
            known = self._found[identity] = self._new(pod, kind, volumes)
        return known

    def _new(self, pod: Pod, kind: int, volumes: PodVolumes | None) -> PodClass:
        if volumes is None:
            return self._class(pod, kind, pod_requirements(pod) if pod.preferred_terms else None)
        pod = reachable(pod, volumes.alternatives)
        excluded = sorted({normalise(term.topology_key) for term in pod.anti_affinity})
        places = one_by_one(volumes.alternatives, excluded)
        first, *others = (
            self._class(pod, (kind, at), wanted, bool(volumes.attached))
            for at, wanted in enumerate(choices(pod, places))
        )
        first.others = tuple(others)
        return first

    def _class(
        self, pod: Pod, kind: Hashable, requirements: Requirements | None, attaches: bool = False
    ) -> PodClass:
        """``requirements``: None for those that are written as strict ones."""
        self._count += 1
        strict = strict_requirements(pod)
        requests = self._size(pod)
        return PodClass(
            index=self._count - 1,
            kind=kind,
            pod=pod,
            requests=requests,
            amounts=tuple(requests.tolist()),
            requirements=strict if requirements is None else requirements,
            strict=strict,
            attaches=attaches,
        )

    def _size(self, pod: Pod) -> Amounts:
        """Many classes ask for the same."""
        at = tuple(pod.requests.items())
        found = self._sizes.get(at)
        if found is None:
            found = self._sizes[at] = self._axis.vector(effective_requests(pod.requests))
        return found

    def _rules(self, pod: Pod) -> bytes:
        """All that a class depends on, requests and volumes aside."""
        keys = self._label_keys
        seen = {k: v for k, v in pod.labels.items() if k in keys} if keys else {}
        return _ENCODER.encode(
            (
                pod.namespace if keys else "",
                seen,
                pod.node_selector,
                pod.required_terms,
                pod.preferred_terms,
                pod.tolerations,
                pod.spread,
                pod.affinity,
                pod.anti_affinity,
                pod.host_ports,
            )
        )
