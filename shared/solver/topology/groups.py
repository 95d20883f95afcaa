"""Groups: a topology rule with the number of selected pods in each domain.

A ``Group`` counts per domain of one topology key (a zone, a host); pods with equal rules share it (SCH-70).
``Topology`` decides what is counted, and when.
"""

from __future__ import annotations

from collections.abc import Collection
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
    node_domains: frozenset[str] = frozenset()
    """Domains that have a node."""
    matched: dict[tuple[object, ...], bool] = field(default_factory=dict)
    filtered_keys: tuple[str, ...] = field(init=False)
    counts_hosts: bool = field(init=False)
    """True for spread and anti-affinity by host name: each host is a domain, and its own count decides."""
    counts_everywhere: bool = field(init=False)
    """Do pods on every host count?"""

    def __post_init__(self) -> None:
        self.counts_hosts = self.rule.key == keys.HOSTNAME and self.rule.kind != AFFINITY
        self.counts_everywhere = not self.rule.node_filter and self.rule.tolerations is None
        asked = {wanted.key for filtered in self.rule.node_filter for wanted in filtered}
        self.filtered_keys = tuple(sorted(asked))

    def counts_on(self, host: Host) -> bool:
        """Do pods on this host count? Depends on nodeAffinityPolicy and nodeTaintsPolicy (SCH-76)."""
        if self.counts_everywhere:
            return True
        if self.rule.tolerations is not None and not host.is_tolerated(self.rule.tolerations):
            return False
        if not self.rule.node_filter:
            return True
        # The key has only the labels that the filter reads, so equal nodes share one entry.
        at = (host.is_new, *map(host.requirements.get, self.filtered_keys))
        if at not in self.matched:
            allowed = keys.WELL_KNOWN if host.is_new else frozenset[str]()
            self.matched[at] = any(
                host.requirements.compatible(wanted, allow_undefined=allowed)
                for wanted in self.rule.node_filter
            )
        return self.matched[at]

    def next_domains(
        self, selects_pod: bool, pod_domains: Requirement | None, candidates: list[str]
    ) -> list[str]:
        """The domains of ``candidates`` that may take one more pod; for spread only the best one.

        ``pod_domains``: those that the pod's own requirements allow; None: all.
        """
        if self.rule.kind == SPREAD:
            return self._least_loaded(selects_pod, pod_domains, candidates)
        if self.rule.kind == ANTI_AFFINITY:
            return [d for d in candidates if not self.counts.get(d)]
        return self._affinity_domains(selects_pod, pod_domains, candidates)

    def takes(self, domain: str, selects_pod: bool, pod_domains: Requirement | None) -> bool:
        """May this domain take one more pod, where no other one is possible?"""
        least, most = self.bounds(selects_pod, pod_domains)
        return least <= self.counts.get(domain, 0) <= most

    def _least_loaded(
        self, selects_pod: bool, pod_domains: Requirement | None, candidates: list[str]
    ) -> list[str]:
        """The domain with the smallest count, then name, whose skew stays within bounds (SCH-73)."""
        _, ceiling = self.bounds(selects_pod, pod_domains)
        fitting = [(self.counts.get(d, 0), d) for d in candidates]
        allowed = [(count, d) for count, d in fitting if count <= ceiling]
        return [min(allowed)[1]] if allowed else []

    def bounds(self, selects_pod: bool, pod_domains: Requirement | None) -> tuple[int, int]:
        """The least and the most pods that a domain may hold now to take one more."""
        rule = self.rule
        if rule.kind is ANTI_AFFINITY:
            return 0, 0
        if rule.kind is SPREAD:
            return 0, self._minimum_count(pod_domains) + rule.max_skew - selects_pod
        return 0 if selects_pod and self.starts(pod_domains) else 1, _ANY_NUMBER

    def _minimum_count(self, pod_domains: Requirement | None) -> int:
        """The smallest count of a domain; zero for host names and below minDomains domains (SCH-74, SCH-75)."""
        rule = self.rule
        if rule.key == keys.HOSTNAME:
            return 0
        counts: Collection[int] = self.counts.values()
        if pod_domains is not None:
            counts = [
                count
                for d, count in self.counts.items()
                if pod_domains.has(d) or d in self.node_domains
            ]
        if rule.min_domains is not None and len(counts) < rule.min_domains:
            return 0
        return min(counts, default=0)

    def _affinity_domains(
        self, selects_pod: bool, pod_domains: Requirement | None, candidates: list[str]
    ) -> list[str]:
        """Domains that have selected pods; the first pod of a rule that selects itself goes anywhere (SCH-80)."""
        taken = [d for d in candidates if self.counts.get(d)]
        if taken:
            return taken
        return candidates[:1] if selects_pod and self.starts(pod_domains) else []

    def starts(self, pod_domains: Requirement | None) -> bool:
        """True while no domain has a selected pod: the next one decides the domain of the others."""
        if pod_domains is None:
            return not any(self.counts.values())
        return not any(count and pod_domains.has(d) for d, count in self.counts.items())


class DomainLimit(NamedTuple):
    """A domain of the group takes one more pod of a class only if it holds ``least`` to ``most`` pods now."""

    group: Group
    least: int
    most: int
