"""Topology spread, pod affinity and pod anti-affinity: how many selected pods each domain holds.

A ``Group`` counts, per domain of one topology key (a zone, a host), the pods that one rule talks
about; pods with the same rule share it (SCH-70). ``Topology`` finds a pod class's groups, narrows a
machine's requirements to the domains they allow (``narrow``), and counts what was placed
(``record``).

What may go wrong: counts only hold pods whose domain is decided. A pod on a machine that may still
become either of two zones is counted in neither for spread, and in both for anti-affinity (SCH-81).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.pods import Pod
from shared.domain.requirements import Requirement, Requirements
from shared.solver import reasons
from shared.solver.hosts import Host
from shared.solver.pod_classes import PodClass
from shared.solver.topology_rules import (
    AFFINITY,
    ANTI_AFFINITY,
    SPREAD,
    Rule,
    inverse_rule,
    owned_rules,
    required,
)

_SHOWN_DOMAINS = 10
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


class Refusal(NamedTuple):
    """Why a host cannot take the pod; ``is_final``: nothing in this plan changes that."""

    cause: str | Callable[[], str]
    """The text, or what writes it: of many refusals few are told, and right when they happen."""
    is_final: bool
    key: str = ""
    """The topology key whose domains refused: hosts with the same value are refused as well."""

    @property
    def text(self) -> str:
        return self.cause if isinstance(self.cause, str) else self.cause()


class _Check(NamedTuple):
    """One rule that a class must keep."""

    group: Group
    selects_pod: bool
    """Does the rule count the class's own pods?"""
    pod_domains: Requirement


@dataclass(slots=True)
class _Rules:
    """The groups of one class, by what they have to do with it."""

    known_groups: int
    owned: list[Group]
    checks: list[_Check]
    """Of its own rules, and of others' that may keep it out."""
    counted: list[Group]
    inverse_owned: list[Group]


BoundPods = dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, int]]
"""(namespace, selected labels) -> host name -> number of pods (SCH-72)."""


Sources = Iterable[tuple[Host, Iterable[str]]]
"""Pools, as the machines they could build, and nodes, each with the domains of one key it brings."""


class Topology:
    """All groups of one plan. ``universe`` gives the domains of a key by who brings them (SCH-71);
    ``hosts`` the nodes.
    """

    def __init__(
        self, universe: Callable[[str], Sources], hosts: dict[str, Host], bound: BoundPods
    ) -> None:
        self._universe = universe
        self.hosts = hosts
        self._bound = bound
        self._brought: dict[tuple[str, tuple[str, ...], bool], Sources] = {}
        self._groups: dict[Rule, Group] = {}
        self._rules: dict[PodClass, _Rules] = {}
        self._own: dict[PodClass, tuple[list[Group], list[Group]]] = {}
        self._selecting: dict[tuple[object, ...], tuple[list[Group], list[Group]]] = {}
        self._pinned: dict[tuple[Requirements, str, tuple[str, ...]], Requirements] = {}
        self._placed: list[tuple[PodClass, Host, int]] = []

    def add_bound_owner(self, pod: Pod, host_name: str) -> None:
        """SCH-82: a running pod's required anti-affinity keeps the pods it selects out."""
        for term in required(pod.anti_affinity):
            group = self._group(inverse_rule(pod, term))
            for domain in self._possible(group, self.hosts[host_name]):
                group.counts[domain] = group.counts.get(domain, 0) + 1

    def register(self, pods: PodClass) -> None:
        """Creates the groups of a class, before anything of it is placed."""
        if pods.has_topology:
            self._own_groups(pods)

    def groups_of(self, pods: PodClass) -> tuple[list[Group], list[Group]]:
        """The groups of the class's own rules, and those that count its pods."""
        return self._of(pods).owned, self._of(pods).counted

    def limits(self, pods: PodClass) -> list[DomainLimit]:
        """What the class's rules allow now, per domain: hosts elsewhere need not be asked (``narrow`` would refuse)."""
        if not self._groups:
            return []
        return [
            DomainLimit(group, *group.bounds(selects_pod, pod_domains))
            for group, selects_pod, pod_domains in self._of(pods).checks
        ]

    def concerns(self, pods: PodClass) -> bool:
        """Must this class be placed one by one?"""
        return bool(self._groups) and bool(self._of(pods).checks)

    def narrow(
        self, pods: PodClass, host: Host, requirements: Requirements
    ) -> Requirements | Refusal:
        """``requirements`` pinned to the domains that the class's rules allow on this host.

        An existing host cannot be pinned: each of its possible domains must be allowed.
        """
        if not self._groups:
            return requirements
        for group, selects_pod, pod_domains in self._of(pods).checks:
            if group.counts_hosts:
                if group.counts.get(host.name, 0) > group.bounds(selects_pod, pod_domains)[1]:
                    return self._refuse(group, pod_domains, requirements)
                continue
            if _has_no_domain(group, host):
                continue
            candidates = self._possible(group, host, requirements)
            allowed = group.next_domains(selects_pod, pod_domains, candidates)
            if not allowed or not (host.is_new or set(allowed) == set(candidates)):
                return self._refuse(group, pod_domains, requirements)
            if group.rule.key != keys.HOSTNAME:
                requirements = host.pinned(self._pin(requirements, group.rule.key, allowed))
        return requirements

    def _pin(self, requirements: Requirements, key: str, domains: list[str]) -> Requirements:
        """To some of the domains they allow; equal questions get the same object."""
        at = (requirements, key, tuple(domains))
        found = self._pinned.get(at)
        if found is None:
            pinned = requirements.add(Requirement(key, False, frozenset(domains)))
            found = self._pinned[at] = pinned
        return found

    def record(self, pods: PodClass, host: Host, count: int) -> None:
        """Counts ``count`` pods of a class that were placed on a host."""
        if not self._groups:
            return
        self._placed.append((pods, host, count))
        rules = self._of(pods)
        for group in rules.counted:
            self._count(group, host, count)
        for group in rules.inverse_owned:
            for domain in self._possible(group, host):
                group.counts[domain] = group.counts.get(domain, 0) + count

    def _count(self, group: Group, host: Host, count: int) -> None:
        if not group.counts_on(host):
            return
        if group.rule.key == keys.HOSTNAME:
            group.counts[host.name] = group.counts.get(host.name, 0) + count
            return
        domains = self._possible(group, host)
        if len(domains) == 1 or group.rule.kind == ANTI_AFFINITY:
            for domain in domains:
                group.counts[domain] = group.counts.get(domain, 0) + count

    def _possible(
        self, group: Group, host: Host, requirements: Requirements | None = None
    ) -> list[str]:
        """The domains that a host may turn out to be in, sorted."""
        key = group.rule.key
        if key == keys.HOSTNAME:
            return [host.name]
        allowed = (requirements or host.requirements).get(key)
        if allowed is None and not host.is_new:
            return []
        reachable = host.reaches(key)
        if allowed is not None and not allowed.complement:
            values = allowed.values
            return sorted(values if reachable is None else values & reachable)
        known = set(group.counts) if reachable is None else reachable & group.counts.keys()
        return sorted(d for d in known if allowed is None or allowed.has(d))

    def _refuse(
        self, group: Group, pod_domains: Requirement, requirements: Requirements
    ) -> Refusal:
        key, kind = group.rule.key, group.rule.kind

        def explain() -> str:
            shown = sorted(group.counts.items())[:_SHOWN_DOMAINS]
            counts = "{" + ", ".join(f"{d}: {count}" for d, count in shown) + "}"
            node_domains = requirements.get(key) or Requirement(key, complement=True)
            return reasons.unsatisfiable_topology(
                kind, key, counts, str(pod_domains), str(node_domains)
            )

        return Refusal(explain, key == keys.HOSTNAME and kind != AFFINITY, key)

    def _of(self, pods: PodClass) -> _Rules:
        rules = self._rules.get(pods)
        if rules is None or rules.known_groups != len(self._groups):
            rules = self._rules[pods] = self._find_rules(pods)
        return rules

    def _find_rules(self, pods: PodClass) -> _Rules:
        owned, inverse = self._own_groups(pods)
        blocking, counted = self._selecting_groups(pods.pod)
        checks = []
        for group in (*owned, *blocking):
            key = group.rule.key
            pod_domains = pods.strict.get(key) or Requirement(key, complement=True)
            checks.append(_Check(group, group in counted, pod_domains))
        return _Rules(len(self._groups), owned, checks, counted, inverse)

    def _own_groups(self, pods: PodClass) -> tuple[list[Group], list[Group]]:
        """Of the class's own rules, and of its anti-affinity as others see it."""
        found = self._own.get(pods)
        if found is None:
            pod = pods.pod
            owned = [self._group(rule) for rule in owned_rules(pod)]
            inverse = [self._group(inverse_rule(pod, term)) for term in required(pod.anti_affinity)]
            found = self._own[pods] = owned, inverse
        return found

    def _selecting_groups(self, pod: Pod) -> tuple[list[Group], list[Group]]:
        """The groups that talk about this pod: those that may keep it out, and those that count it."""
        at = (len(self._groups), pod.namespace, *sorted(pod.labels.items()))
        found = self._selecting.get(at)
        if found is None:
            selecting = [
                group
                for group in self._groups.values()
                if group.rule.selector.selects(pod.namespace, pod.labels)
            ]
            blocking = [group for group in selecting if group.rule.inverse]
            counted = [group for group in selecting if not group.rule.inverse]
            found = self._selecting[at] = blocking, counted
        return found

    def _group(self, rule: Rule) -> Group:
        group = self._groups.get(rule)
        if group is None:
            group = self._groups[rule] = Group(rule, {})
            if rule.key != keys.HOSTNAME:
                self._find_domains(group)
            if not rule.inverse:
                self._count_what_is_there(group)
        return group

    def _find_domains(self, group: Group) -> None:
        """SCH-71, SCH-76: what is brought only by pools and nodes that do not count is no domain."""
        inhabited: set[str] = set()
        for host, domains in self._sources(group):
            if group.counts_on(host):
                group.counts.update(dict.fromkeys(domains, 0))
                inhabited.update(() if host.is_new else domains)
        group.inhabited = frozenset(inhabited)

    def _sources(self, group: Group) -> Sources:
        """One host of each kind that this rule tells apart, and the domains of all of them."""
        at = group.rule.key, group.filtered_keys, group.rule.tolerations is not None
        if at not in self._brought:
            found: dict[tuple[object, ...], tuple[Host, dict[str, None]]] = {}
            for host, domains in self._universe(group.rule.key):
                asked = map(host.requirements.get, group.filtered_keys)
                kind = (host.is_new, host.taints if at[2] else (), *asked)
                found.setdefault(kind, (host, {}))[1].update(dict.fromkeys(domains))
            self._brought[at] = found.values()
        return self._brought[at]

    def _count_what_is_there(self, group: Group) -> None:
        """Bound pods (SCH-72), and what this plan placed before a relaxation made the group."""
        for (namespace, labels), by_host in self._bound.items():
            if group.rule.selector.selects(namespace, dict(labels)):
                for host_name, count in by_host.items():
                    self._count(group, self.hosts[host_name], count)
        for pods, host, count in self._placed:
            if group.rule.selector.selects(pods.pod.namespace, pods.pod.labels):
                self._count(group, host, count)


def _has_no_domain(group: Group, host: Host) -> bool:
    """kube-scheduler: a node without the topology label cannot violate an anti-affinity."""
    if host.is_new or group.rule.kind != ANTI_AFFINITY or group.rule.key == keys.HOSTNAME:
        return False
    return group.rule.key not in host.requirements
