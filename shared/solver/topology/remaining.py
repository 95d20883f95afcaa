"""The topology of a cluster without some of its nodes, made from that of the whole one.

A pass of disruption plans one cluster many times, each time without other nodes. The domains and counts of the whole
cluster are worked out once; what the missing nodes have of them is taken away. What may go wrong: ``Topology`` counts
something new that is not taken away here. A property test compares the plans with those of whole topologies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Set
from itertools import count

from shared.domain import labels as keys
from shared.domain.workloads.pods import Pod
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate, domain_sources
from shared.solver.topology.bound_pods import BoundPods
from shared.solver.topology.counting import DomainSources, Topology
from shared.solver.topology.groups import Group
from shared.solver.topology.hosts import Host
from shared.solver.topology.index import PodIndex
from shared.solver.topology.rules import Rule, inverse_rule, required


class WholeTopology(Topology):
    """Of all nodes, with the pods that run on them. Nothing is placed on it."""

    def __init__(
        self,
        templates: Iterable[PoolTemplate],
        hosts: dict[str, Host],
        staying: Iterable[Host],
        bound: BoundPods,
        owners: Iterable[Pod],
    ) -> None:
        """``staying``: hosts whose domains count; ``owners``: running pods with anti-affinity, in order."""
        self.templates, self.staying = list(templates), list(staying)
        super().__init__(
            lambda key: domain_sources(self.templates, self.staying, key), hosts, bound
        )
        self.owners: dict[Rule, list[tuple[int, str]]] = defaultdict(list)
        """Required anti-affinity as an inverse rule -> (place among all, host name) of those that have it."""
        self._by_domain: dict[str, dict[str, list[Host]]] = {}
        place = count()
        for pod in owners:
            if pod.node_name in hosts:
                self.add_bound_owner(pod, pod.node_name)
                for term in required(pod.anti_affinity):
                    self.owners[inverse_rule(pod, term)].append((next(place), pod.node_name))

    @property
    def running(self) -> PodIndex[dict[str, int]]:
        """Kinds of running pods -> host name -> how many."""
        return self._bound

    @property
    def sources(self) -> Callable[[str], DomainSources]:
        """The domains of a topology key."""
        return self._sources_of_key

    def excluding(self, pod: Pod) -> list[Rule]:
        """The inverse rules of running pods that select this pod."""
        blocking, _ = self._selecting_groups(pod)
        return [group.rule for group in blocking if group.rule in self.owners]

    def group(self, rule: Rule) -> Group:
        """The group of a rule with the counts of all nodes."""
        return self._group(rule)

    def hosts_in(self, key: str, domain: str) -> list[Host]:
        """The nodes of one domain."""
        if key not in self._by_domain:
            found: dict[str, list[Host]] = defaultdict(list)
            for host in self.staying:
                label = host.requirements.get(key)
                for value in label.values if label is not None else ():
                    found[value].append(host)
            self._by_domain[key] = found
        return self._by_domain[key][domain]

    def is_made_by_pools(self, group: Group, domain: str) -> bool:
        """Can a pool create machines in this domain that the group counts?"""
        pools = domain_sources(self.templates, (), group.rule.key)
        return any(domain in domains and group.counts_on(host) for host, domains in pools)

    def remaining(self, gone: Set[str], classes: Iterable[PodClass]) -> RemainingTopology:
        """Without the nodes of these names, for pods of these classes."""
        return RemainingTopology(self, gone, classes)


class RemainingTopology(Topology):
    """Of the nodes that are left. Pods are placed on it."""

    def __init__(self, whole: WholeTopology, gone: Set[str], classes: Iterable[PodClass]) -> None:
        super().__init__(whole.sources, whole.hosts, {})
        self._bound = whole.running
        self._whole, self._gone = whole, gone
        classes = list(classes)
        excluding = {rule for pods in classes for rule in whole.excluding(pods.pod)}
        # In the order in which a topology of these nodes alone meets them: it decides which refusal is shown.
        places = ((self._owners(rule), rule) for rule in excluding)
        for _, rule in sorted((owners[0], rule) for owners, rule in places if owners):
            self._group(rule)
        for pods in classes:
            self.register(pods)

    def _owners(self, rule: Rule) -> list[int]:
        """Places of the running pods that have this rule."""
        owners = self._whole.owners.get(rule, ())
        return [place for place, host in owners if host not in self._gone]

    def _group(self, rule: Rule) -> Group:
        group = self._groups.get(rule)
        if group is None:
            whole = self._whole.group(rule)
            group = Group(rule, dict(whole.counts), whole.node_domains, whole.matched)
            self._groups[rule] = group
            self._selectors.add(rule.selector, group)
            self._take_away(group)
            if not rule.inverse:
                self._count_what_was_placed(group)
        return group

    def _take_away(self, group: Group) -> None:
        """The pods on missing nodes, and the domains that no other node has."""
        rule = group.rule
        if rule.inverse:
            for _, name in self._whole.owners.get(rule, ()):
                if name in self._gone:
                    for domain in self._possible(group, self.hosts[name]):
                        group.counts[domain] -= 1
        else:
            for by_host in self._bound.selected(rule.selector):
                for name in self._gone & by_host.keys():
                    self._count(group, self.hosts[name], -by_host[name])
        for name in self._gone & self.hosts.keys():
            if rule.key == keys.HOSTNAME:
                group.counts.pop(self.hosts[name].name, None)
            else:
                self._take_domains(group, self.hosts[name])

    def _take_domains(self, group: Group, gone: Host) -> None:
        label = gone.requirements.get(group.rule.key)
        for domain in label.values if label is not None and group.counts_on(gone) else ():
            nodes = self._whole.hosts_in(group.rule.key, domain)
            if not any(one.name not in self._gone and group.counts_on(one) for one in nodes):
                group.node_domains -= {domain}
                if not self._whole.is_made_by_pools(group, domain):
                    group.counts.pop(domain, None)
