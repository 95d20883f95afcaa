"""A rule between pods and what it has counted: how many pods it talks about each domain holds, and how many it may.

A ``Group`` counts per domain of one topology key (a zone, a host); pods with the same rule share it (SCH-70). What it
counts, and when, is ``Topology``'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.requirements import Requirement
from shared.solver.topology.hosts import Host
from shared.solver.topology.rules import AFFINITY, ANTI_AFFINITY, SPREAD, Rule

_ANY_NUMBER = 2**62


@dataclass(slots=True, eq=False)
class Group:
    """One rule and its counts per domain."""

    rule: Rule
    counts: dict[str, int]
    inhabited: frozenset[str] = frozenset()
    """Domains in which a node is."""
    matched: dict[tuple[object, ...], bool] = field(default_factory=dict)
    filtered_keys: tuple[str, ...] = field(init=False)
    counts_hosts: bool = field(init=False)
    """A spread or anti-affinity rule by host name: each host is a domain, and its count decides."""

    def __post_init__(self) -> None:
        self.counts_hosts = self.rule.key == keys.HOSTNAME and self.rule.kind != AFFINITY
        asked = {wanted.key for filtered in self.rule.node_filter for wanted in filtered}
        self.filtered_keys = tuple(sorted(asked))

    def counts_on(self, host: Host) -> bool:
        """SCH-76: only nodes that the owner may use are counted, as far as its policies say so."""
        if self.rule.tolerations is not None and not host.is_tolerated(self.rule.tolerations):
            return False
        if not self.rule.node_filter:
            return True
        # Nodes differ by name; a filter that does not ask for it sees few kinds of them.
        at = (host.is_new, *map(host.requirements.get, self.filtered_keys))
        if at not in self.matched:
            allowed = keys.WELL_KNOWN if host.is_new else frozenset[str]()
            self.matched[at] = any(
                host.requirements.compatible(wanted, allow_undefined=allowed)
                for wanted in self.rule.node_filter
            )
        return self.matched[at]

    def next_domains(
        self, selects_pod: bool, pod_domains: Requirement, candidates: list[str]
    ) -> list[str]:
        """The domains of ``candidates`` that may take one more pod; one for spread, its best."""
        if self.rule.kind == SPREAD:
            return self._least_loaded(selects_pod, pod_domains, candidates)
        if self.rule.kind == ANTI_AFFINITY:
            return [d for d in candidates if not self.counts.get(d)]
        return self._together(selects_pod, pod_domains, candidates)

    def _least_loaded(
        self, selects_pod: bool, pod_domains: Requirement, candidates: list[str]
    ) -> list[str]:
        """SCH-73: skew within bounds, then the smallest count, then the name."""
        _, ceiling = self.bounds(selects_pod, pod_domains)
        fitting = [(self.counts.get(d, 0), d) for d in candidates]
        allowed = [(count, d) for count, d in fitting if count <= ceiling]
        return [min(allowed)[1]] if allowed else []

    def bounds(self, selects_pod: bool, pod_domains: Requirement) -> tuple[int, int]:
        """How many pods a domain must, and may, hold already if it is to take one more."""
        if self.rule.kind == ANTI_AFFINITY:
            return 0, 0
        if self.rule.kind == SPREAD:
            return 0, self._smallest(pod_domains) + self.rule.max_skew - int(selects_pod)
        starts = selects_pod and not self._is_known(pod_domains)
        return 0 if starts else 1, _ANY_NUMBER

    def _smallest(self, pod_domains: Requirement) -> int:
        """SCH-74, SCH-75: zero for host names, and with fewer domains than minDomains."""
        if self.rule.key == keys.HOSTNAME:
            return 0
        counts = [
            count
            for d, count in self.counts.items()
            if pod_domains.has(d) or (self.rule.everywhere and d in self.inhabited)
        ]
        if self.rule.min_domains is not None and len(counts) < self.rule.min_domains:
            return 0
        return min(counts, default=0)

    def _together(
        self, selects_pod: bool, pod_domains: Requirement, candidates: list[str]
    ) -> list[str]:
        """SCH-80: where such pods are; the first pod of a self-selecting rule starts anywhere."""
        taken = [d for d in candidates if self.counts.get(d)]
        if taken:
            return taken
        return candidates[:1] if selects_pod and not self._is_known(pod_domains) else []

    def _is_known(self, pod_domains: Requirement) -> bool:
        return any(count and pod_domains.has(d) for d, count in self.counts.items())


class DomainLimit(NamedTuple):
    """A domain of ``group``'s key takes one more pod of a class only if it holds ``least`` to ``most`` now."""

    group: Group
    least: int
    most: int
