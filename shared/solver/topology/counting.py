"""Topology spread, pod affinity and pod anti-affinity: how many selected pods each domain holds.

``Topology`` finds a pod class's groups (see ``topology_groups``), narrows a machine's requirements to the domains that
they allow (``narrow``), and counts placed pods (``record``).

What may go wrong: only pods whose domain is decided are counted exactly. A pod on a machine that may still get one of
two zones counts in neither for spread, and in both for anti-affinity (SCH-81).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.requirements import Requirement, Requirements
from shared.domain.workloads.pods import Pod
from shared.solver import reasons
from shared.solver.pod_classes import PodClass
from shared.solver.topology.bound_pods import BoundPods
from shared.solver.topology.groups import DomainLimit, Group
from shared.solver.topology.hosts import Host
from shared.solver.topology.index import PodIndex, SelectorIndex
from shared.solver.topology.rules import (
    AFFINITY,
    ANTI_AFFINITY,
    Rule,
    inverse_rule,
    owned_rules,
    required,
)

_SHOWN_DOMAINS = 10


class Refusal(NamedTuple):
    """Why a host cannot take a pod. ``is_final``: it stays so for the rest of this plan."""

    cause: str | Callable[[], str]
    """The text, or a function that builds it: most refusals are never shown, so their text is not built."""
    is_final: bool
    key: str = ""
    """The topology key whose domain refused; hosts with the same value of it refuse too."""

    @property
    def text(self) -> str:
        return self.cause if isinstance(self.cause, str) else self.cause()


class Check(NamedTuple):
    """One rule that placing a class must satisfy."""

    group: Group
    selects_pod: bool
    """True when the rule counts the class's own pods."""
    pod_domains: Requirement | None
    """The domains that the class's strict requirements allow; None: all."""
    per_host: DomainLimit | None
    """The constant limit of a rule for which each host is a domain; else None."""


@dataclass(slots=True)
class ClassRules:
    """The groups that concern one kind of class."""

    known_groups: int
    owned: list[Group]
    checks: list[Check]
    """Checks of its own rules, and of other pods' anti-affinity that may exclude it: if there are any, its pods are
    placed one by one."""
    counted: list[Group]
    inverse_owned: list[Group]
    by_host: list[Group]
    """The groups among ``counted`` and ``inverse_owned`` that count by host name."""
    on_each_host: list[dict[str, int]]
    """The counts of those in ``by_host`` that count on every host."""
    elsewhere: list[Group]
    """The other groups among ``counted``."""
    inverse_elsewhere: list[Group]
    """The other groups among ``inverse_owned``."""

    @property
    def closes_hosts(self) -> bool:
        """True when the class's only rules allow hosts without such a pod, so that each host takes one pod of it."""
        if not self.checks or any(c.per_host is None or c.per_host.most for c in self.checks):
            return False
        return any(c.group.counts_everywhere and c.group in self.by_host for c in self.checks)


_NO_RULES = ClassRules(0, [], [], [], [], [], [], [], [])

DomainSources = Iterable[tuple[Host, Iterable[str]]]
"""Nodes, and pools as the machines that they could create, each with its domains of one topology key."""


class Topology:
    """All groups of one plan.

    ``sources_of_key``: topology key -> its domains by pool and node (SCH-71). ``hosts``: nodes by name. ``bound``:
    running pods.
    """

    def __init__(
        self,
        sources_of_key: Callable[[str], DomainSources],
        hosts: dict[str, Host],
        bound: BoundPods,
    ) -> None:
        self._sources_of_key = sources_of_key
        self.hosts = hosts
        self._bound: PodIndex[dict[str, int]] = PodIndex()
        for (namespace, labels), by_host in bound.items():
            self._bound.add(namespace, dict(labels), by_host)
        self._sources_cache: dict[tuple[str, tuple[str, ...], bool], DomainSources] = {}
        self._groups: dict[Rule, Group] = {}
        self._rules: dict[Hashable, ClassRules] = {}
        self._own: dict[Hashable, tuple[list[Group], list[Group]]] = {}
        self._selectors: SelectorIndex[Group] = SelectorIndex()
        self._pinned: dict[tuple[Requirements, str, tuple[str, ...]], Requirements] = {}
        self._placed: dict[Hashable, dict[Host, int]] = {}
        self._placed_kinds: PodIndex[dict[Host, int]] = PodIndex()

    def add_bound_owner(self, pod: Pod, host_name: str) -> None:
        """Adds a running pod's required anti-affinity, which excludes the pods that it selects (SCH-82)."""
        for term in required(pod.anti_affinity):
            group = self._group(inverse_rule(pod, term))
            for domain in self._possible(group, self.hosts[host_name]):
                group.counts[domain] = group.counts.get(domain, 0) + 1

    def register(self, pods: PodClass) -> None:
        """Creates the groups of a class. To be called before any of its pods is placed."""
        if pods.has_topology:
            self._own_groups(pods)

    def groups_of(self, pods: PodClass) -> tuple[list[Group], list[Group]]:
        """The groups of the class's own rules, and the groups that count its pods."""
        rules = self.rules(pods)
        return rules.owned, rules.counted

    def rules(self, pods: PodClass) -> ClassRules:
        """The rules of a class, as long as no group is added."""
        if not self._groups:
            return _NO_RULES
        found = self._rules.get(pods.kind)
        if found is None or found.known_groups != len(self._groups):
            found = self._rules[pods.kind] = self._find_rules(pods)
        return found

    def narrow(
        self, checks: list[Check], host: Host, requirements: Requirements
    ) -> Requirements | Refusal:
        """``requirements`` narrowed to the domains that the checks of a class allow on this host.

        An existing host cannot be narrowed: each of its possible domains must be allowed.
        """
        for group, selects_pod, pod_domains, per_host in checks:
            if per_host is not None:
                if group.counts.get(host.name, 0) > per_host.most:
                    return self._refuse(group, pod_domains, requirements)
                continue
            if not host.is_new and _has_no_domain(group, host):
                continue
            if requirements is host.requirements and not requirements.asks_for_zone_id:
                place = host.decided(group.rule.key)
                if place is not None:
                    if not place or not group.takes(place[0], selects_pod, pod_domains):
                        return self._refuse(group, pod_domains, requirements)
                    continue
            candidates = self._possible(group, host, requirements)
            allowed = group.next_domains(selects_pod, pod_domains, candidates)
            if not allowed or not (host.is_new or set(allowed) == set(candidates)):
                return self._refuse(group, pod_domains, requirements)
            if group.rule.key != keys.HOSTNAME:
                requirements = host.pinned(self._pin(requirements, group.rule.key, allowed))
        return requirements

    def _pin(self, requirements: Requirements, key: str, domains: list[str]) -> Requirements:
        """The requirements with these domains only. Cached, so that equal results are the same object."""
        at = (requirements, key, tuple(domains))
        found = self._pinned.get(at)
        if found is None:
            pinned = requirements.add(Requirement(key, False, frozenset(domains)))
            found = self._pinned[at] = pinned
        return found

    def record(self, pods: PodClass, host: Host, count: int) -> list[Group]:
        """Counts ``count`` pods of a class that were placed on a host. Returns the groups that count by host name."""
        if not self._groups:
            return []
        self._note(pods, host, count)
        rules, name = self.rules(pods), host.name
        for counts in rules.on_each_host:
            counts[name] = counts.get(name, 0) + count
        for group in rules.elsewhere:
            self._count(group, host, count)
        for group in rules.inverse_elsewhere:
            for domain in self._possible(group, host):
                group.counts[domain] = group.counts.get(domain, 0) + count
        return rules.by_host

    def _note(self, pods: PodClass, host: Host, count: int) -> None:
        """Remembers where pods were placed, for groups that a relaxation creates later."""
        placed = self._placed.get(pods.kind)
        if placed is None:
            placed = self._placed[pods.kind] = {}
            self._placed_kinds.add(pods.pod.namespace, pods.pod.labels, placed)
        placed[host] = placed.get(host, 0) + count

    def _count(self, group: Group, host: Host, count: int) -> None:
        if not group.counts_everywhere and not group.counts_on(host):
            return
        counts, rule = group.counts, group.rule
        if rule.key == keys.HOSTNAME:
            counts[host.name] = counts.get(host.name, 0) + count
            return
        domains = host.decided(rule.key)
        if domains is None:
            domains = self._possible(group, host)
        if len(domains) == 1 or rule.kind is ANTI_AFFINITY:
            for domain in domains:
                counts[domain] = counts.get(domain, 0) + count

    def _possible(
        self, group: Group, host: Host, requirements: Requirements | None = None
    ) -> list[str]:
        """The domains that a host may be in, sorted."""
        key = group.rule.key
        if key == keys.HOSTNAME:
            return [host.name]
        if requirements is None and (place := host.decided(key)) is not None:
            return place
        allowed = (requirements or host.requirements).get(key)
        if allowed is None and not host.is_new:
            return []
        reachable = host.reaches(key)
        if allowed is not None and not allowed.complement:
            values = allowed.values
            return sorted(values if reachable is None else values & reachable)
        known = group.counts.keys() if reachable is None else reachable & group.counts.keys()
        return sorted(known if allowed is None else filter(allowed.has, known))

    def _refuse(
        self, group: Group, pod_domains: Requirement | None, requirements: Requirements
    ) -> Refusal:
        key, kind = group.rule.key, group.rule.kind

        def explain() -> str:
            shown = sorted(group.counts.items())[:_SHOWN_DOMAINS]
            counts = "{" + ", ".join(f"{d}: {count}" for d, count in shown) + "}"
            every = Requirement(key, complement=True)
            return reasons.unsatisfiable_topology(
                kind, key, counts, str(pod_domains or every), str(requirements.get(key) or every)
            )

        return Refusal(explain, key == keys.HOSTNAME and kind != AFFINITY, key)

    def _find_rules(self, pods: PodClass) -> ClassRules:
        owned, inverse = self._own_groups(pods)
        blocking, counted = self._selecting_groups(pods.pod)
        checks, selecting = [], set(counted)
        for group in (*owned, *blocking):
            key = group.rule.key
            pod_domains = pods.strict.get(key)
            selects_pod = group in selecting
            bounds = group.bounds(selects_pod, pod_domains) if group.counts_hosts else None
            per_host = DomainLimit(group, *bounds) if bounds else None
            checks.append(Check(group, selects_pod, pod_domains, per_host))
        by_host = [group for group in (*counted, *inverse) if group.rule.key == keys.HOSTNAME]
        on_each_host = [g for g in by_host if g.counts_everywhere]
        everywhere = set(on_each_host)
        rest = [[g for g in groups if g not in everywhere] for groups in (counted, inverse)]
        on_each = [group.counts for group in on_each_host]
        return ClassRules(
            len(self._groups), owned, checks, counted, inverse, by_host, on_each, *rest
        )

    def _own_groups(self, pods: PodClass) -> tuple[list[Group], list[Group]]:
        """The groups of the class's own rules, and of the inverse of its required anti-affinity."""
        found = self._own.get(pods.kind)
        if found is None:
            pod = pods.pod
            owned = [self._group(rule) for rule in owned_rules(pod)]
            inverse = [self._group(inverse_rule(pod, term)) for term in required(pod.anti_affinity)]
            found = self._own[pods.kind] = owned, inverse
        return found

    def _selecting_groups(self, pod: Pod) -> tuple[list[Group], list[Group]]:
        """The groups that select this pod: inverse ones, which may exclude it, and those that count it."""
        selecting = self._selectors.selecting(pod.namespace, pod.labels)
        blocking = [group for group in selecting if group.rule.inverse]
        counted = [group for group in selecting if not group.rule.inverse]
        return blocking, counted

    def _group(self, rule: Rule) -> Group:
        group = self._groups.get(rule)
        if group is None:
            group = self._groups[rule] = Group(rule, {})
            self._selectors.add(rule.selector, group)
            if rule.key != keys.HOSTNAME:
                self._find_domains(group)
            if not rule.inverse:
                self._count_placed_pods(group)
        return group

    def _find_domains(self, group: Group) -> None:
        """Adds the group's domains: those of pools and nodes that the rule counts (SCH-71, SCH-76)."""
        node_domains: set[str] = set()
        for host, domains in self._sources(group):
            if group.counts_on(host):
                group.counts.update(dict.fromkeys(domains, 0))
                node_domains.update(() if host.is_new else domains)
        group.node_domains = frozenset(node_domains)

    def _sources(self, group: Group) -> DomainSources:
        """One host for all that the rule treats alike, with the domains of all of them."""
        at = group.rule.key, group.filtered_keys, group.rule.tolerations is not None
        if at not in self._sources_cache:
            found: dict[tuple[object, ...], tuple[Host, dict[str, None]]] = {}
            for host, domains in self._sources_of_key(group.rule.key):
                asked = map(host.requirements.get, group.filtered_keys)
                kind = (host.is_new, host.taints if at[2] else (), *asked)
                found.setdefault(kind, (host, {}))[1].update(dict.fromkeys(domains))
            self._sources_cache[at] = found.values()
        return self._sources_cache[at]

    def _count_placed_pods(self, group: Group) -> None:
        """Counts running pods (SCH-72), and those of this plan."""
        for by_host in self._bound.selected(group.rule.selector):
            for host_name, count in by_host.items():
                self._count(group, self.hosts[host_name], count)
        self._count_what_was_placed(group)

    def _count_what_was_placed(self, group: Group) -> None:
        """Counts pods that this plan placed before a relaxation created the group."""
        for placed in self._placed_kinds.selected(group.rule.selector):
            for host, count in placed.items():
                self._count(group, host, count)


def _has_no_domain(group: Group, host: Host) -> bool:
    """A node without the topology label cannot violate an anti-affinity, as in kube-scheduler."""
    if host.is_new or group.rule.kind != ANTI_AFFINITY or group.rule.key == keys.HOSTNAME:
        return False
    return group.rule.key not in host.requirements
