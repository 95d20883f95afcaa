"""Classes of pods with equal requests, rules and selected labels, which are planned together.

A deployment of 400 replicas is one class, so feasibility is computed once. Labels count only if a selector of this plan
reads them; otherwise each pod of a StatefulSet would be a class of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from shared.domain.labels import normalise
from shared.domain.requirements import Requirements
from shared.domain.resources import PODS, Resources, at_least
from shared.domain.workloads.pods import Pod
from shared.solver.encode import Amounts, ResourceAxis
from shared.solver.placement.relaxation import pod_requirements, strict_requirements
from shared.solver.volumes.reach import (
    PodVolumes,
    reachable,
    requirements_by_place,
    with_single_values,
)

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def effective_requests(requests: Resources) -> Resources:
    """The requests with at least one of the resource ``pods``, which every pod uses (SCH-60)."""
    return requests if requests.get(PODS, 0) >= 1 else at_least(requests, {PODS: 1})


@dataclass(slots=True, eq=False)
class PodClass:
    """One class of pods. ``pod`` is its first member; classes compare by identity."""

    index: int
    kind: Hashable
    """Equal for classes that differ only in their requests."""
    pod: Pod
    requests: Amounts
    amounts: tuple[int, ...]
    """``requests`` as Python integers."""
    requirements: Requirements
    """Requirements with the heaviest preference (SCH-20) and the place of the volumes (SCH-93)."""
    strict: Requirements
    """Requirements without preferences and volumes; topology counts domains by these (SCH-95)."""
    attaches: bool = False
    """True for volumes whose number some node limits (SCH-91). Such pods are placed one by one."""
    others: tuple[PodClass, ...] = ()
    """The same pods with the other alternatives of their volumes (SCH-93) and device claims (DRA-01), tried after this
    class."""
    errors: dict[str, str] = field(default_factory=dict)
    """Pool key -> why no new machine of the pool can run this class. Machines only fill up in a plan, so a reason that
    does not depend on topology stays valid."""

    @property
    def has_topology(self) -> bool:
        return bool(self.pod.spread or self.pod.affinity or self.pod.anti_affinity)


class ClassRegistry:
    """Finds the class of a pod. ``label_keys``: the label keys that some selector reads; ``volumes``: pod UID -> its
    resolved volumes; ``ways``: pod UID -> its requests in other ways of meeting its device claims."""

    def __init__(
        self,
        axis: ResourceAxis,
        label_keys: frozenset[str],
        volumes: Mapping[str, PodVolumes] | None = None,
        ways: Mapping[str, tuple[Resources, ...]] | None = None,
    ) -> None:
        self.volumes = volumes or {}
        self._ways = ways or {}
        self._axis = axis
        self._label_keys = label_keys
        self._classes: dict[object, PodClass] = {}
        self._kinds: dict[tuple[bytes, object], int] = {}
        self._sizes: dict[tuple[tuple[str, int], ...], tuple[Amounts, tuple[int, ...]]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[PodClass]:
        return iter(self._classes.values())

    def intern(self, pod: Pod) -> PodClass:
        """The class of this pod.

        Raises InvalidObject when one of its expressions is invalid, or when it excludes the places of its volumes.
        """
        volumes = self.volumes.get(pod.uid) if pod.volume_claims else None
        places: object = volumes.identity if volumes else None
        if ways := self._ways.get(pod.uid) if pod.device_claims else None:
            places = (places, tuple(tuple(sorted(way.items())) for way in ways))
        fields = self._fields(pod)
        written = _ENCODER.encode(fields)
        at = written if places is None else (written, places)
        known = self._classes.get(at)
        if known is None:
            rules = _ENCODER.encode(fields[1:])
            kind = self._kinds.setdefault((rules, places), len(self._kinds))
            known = self._classes[at] = self._new(pod, kind, volumes)
        return known

    def _new(self, pod: Pod, kind: int, volumes: PodVolumes | None) -> PodClass:
        if volumes is None and not self._ways:
            return self._anywhere(pod, kind)
        first, *others = self._by_places(pod, kind, volumes)
        for requests in self._ways.get(pod.uid, ()):
            others += self._by_places(replace(pod, requests=dict(requests)), kind, volumes)
        first.others = tuple(others)
        return first

    def _by_places(self, pod: Pod, kind: int, volumes: PodVolumes | None) -> list[PodClass]:
        """The pod in each alternative of its volumes, at least one."""
        if volumes is None:
            return [self._anywhere(pod, kind)]
        pod = reachable(pod, volumes.alternatives)
        excluded = sorted({normalise(term.topology_key) for term in pod.anti_affinity})
        places = with_single_values(volumes.alternatives, excluded)
        return [
            self._class(pod, (kind, at), wanted, bool(volumes.attached))
            for at, wanted in enumerate(requirements_by_place(pod, places))
        ]

    def _anywhere(self, pod: Pod, kind: Hashable) -> PodClass:
        """A pod without volumes."""
        return self._class(pod, kind, pod_requirements(pod) if pod.preferred_terms else None)

    def _class(
        self, pod: Pod, kind: Hashable, requirements: Requirements | None, attaches: bool = False
    ) -> PodClass:
        """``requirements``: None when they are the strict ones."""
        self._count += 1
        strict = strict_requirements(pod)
        requests, amounts = self._size(pod)
        wanted = strict if requirements is None else requirements
        return PodClass(
            self._count - 1, kind, pod, requests, amounts, wanted, strict, attaches=attaches
        )

    def _size(self, pod: Pod) -> tuple[Amounts, tuple[int, ...]]:
        """The requests as a vector, and that as Python integers. Cached, since many classes request the same."""
        at = tuple(pod.requests.items())
        found = self._sizes.get(at)
        if found is None:
            vector = self._axis.vector(effective_requests(pod.requests))
            found = self._sizes[at] = vector, tuple(vector.tolist())
        return found

    def _fields(self, pod: Pod) -> tuple[object, ...]:
        """The pod's fields that decide its class, except volumes; the first one is its requests."""
        keys, labels = self._label_keys, pod.labels
        seen = labels
        if not keys.issuperset(labels):
            seen = {k: labels[k] for k in labels if k in keys}
        return (
            pod.requests,
            pod.namespace if keys else "",
            seen,
            pod.node_selector,
            pod.required_terms,
            pod.written_terms,
            pod.preferred_terms,
            pod.tolerations,
            pod.spread,
            pod.affinity,
            pod.anti_affinity,
            pod.host_ports,
        )
