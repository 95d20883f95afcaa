"""Spread, affinity and anti-affinity of a finished plan, checked from the rules (SCH-70..84).

Karpenter checks a rule when a pod is inserted, and counts only grow afterwards. What must therefore still be true at
the end, whatever the order was, and is checked for every pod that the plan placed:

- required anti-affinity, both directions: no pod that a term selects is in a domain where its owner is or may be
  (SCH-81, SCH-82); two pods that both ran before are left alone;
- required affinity: in each domain where the owner may be there is another selected pod; or the owner selects itself,
  and no selected pod ran before in a domain open to it; a rule does not start twice where once was enough (SCH-80);
- hard spread: the owner's domain is decided, and the selected pods that ran there before, plus the planned owners that
  select themselves, exceed the smallest eligible domain by at most maxSkew. Selected pods without the rule may be
  inserted later and count only for that smallest domain (SCH-73). Owners with several required node-affinity terms are
  left out: which term was used, and so which nodes count, is not part of a plan.

Eligible is a domain of a node that the owner's selector, affinity and taint policy admit (SCH-76), or one where a new
machine could take the owner (SCH-71). Host names have minimum zero (SCH-74), as has a rule with fewer domains than
minDomains (SCH-75). On machines that are on their way only decided labels count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.workloads.pods import AffinityTerm, Pod, SpreadConstraint
from tests.support.cluster.kubernetes_rules import (
    PossibleLabels,
    alternatives,
    always_holds,
    may_run_on,
    selects,
    tolerated,
)

Reachable = Callable[[Pod, str], frozenset[str]]
"""(pod, topology key) -> domains in which a new machine could take it."""


@dataclass(frozen=True)
class Host:
    """A node or a machine to be: ``staying`` ran there before, ``added`` are placed by the plan."""

    name: str
    labels: PossibleLabels
    taints: tuple[Taint, ...]
    staying: tuple[Pod, ...]
    added: tuple[Pod, ...]
    is_lasting: bool = True
    """False: its domain exists only through the pods that are there (a node that goes, a machine on its way)."""

    def domains(self, key: str) -> frozenset[str]:
        """The domains that it is or may be in; empty without the label."""
        return self.labels.get(keys.normalise(key), frozenset())


def violations(hosts: list[Host], reachable: Reachable) -> list[str]:
    """What is wrong between pods, in words."""
    return [
        *_anti_affinity(hosts),
        *_affinity(hosts),
        *_one_start(hosts),
        *_spread(hosts, reachable),
    ]


def _selected_by(owner: Pod, term: AffinityTerm, pod: Pod) -> bool:
    namespaces = (owner.namespace,) if term.namespaces is None else term.namespaces
    return selects(term.match_labels, term.expressions, namespaces, pod)


def _required(terms: tuple[AffinityTerm, ...]) -> list[AffinityTerm]:
    return [term for term in terms if term.weight is None]


def _everyone(hosts: list[Host]) -> Iterator[tuple[Host, Pod, bool]]:
    """(host, pod, placed by this plan)."""
    for host in hosts:
        yield from ((host, pod, False) for pod in host.staying)
        yield from ((host, pod, True) for pod in host.added)


def _anti_affinity(hosts: list[Host]) -> Iterator[str]:
    everyone = list(_everyone(hosts))
    found: dict[tuple[str, str], dict[str, list[tuple[Pod, bool]]]] = {}
    for host, owner, is_new in everyone:
        for term in _required(owner.anti_affinity):
            rule = (repr(term), owner.namespace)
            if rule not in found:
                found[rule] = _selected_in(everyone, owner, term)
            for domain in sorted(host.domains(term.topology_key)):
                for other, other_is_new in found[rule].get(domain, ()):
                    if other is not owner and (is_new or other_is_new):
                        yield f"anti-affinity of {owner.uid} forbids {other.uid} in {domain}"


def _selected_in(
    everyone: list[tuple[Host, Pod, bool]], owner: Pod, term: AffinityTerm
) -> dict[str, list[tuple[Pod, bool]]]:
    """Domain -> the pods that the term selects and that are, or may be, in it."""
    found: dict[str, list[tuple[Pod, bool]]] = {}
    for host, pod, is_new in everyone:
        if _selected_by(owner, term, pod):
            for domain in host.domains(term.topology_key):
                found.setdefault(domain, []).append((pod, is_new))
    return found


def _affinity(hosts: list[Host]) -> Iterator[str]:
    everyone = list(_everyone(hosts))
    for host in hosts:
        for owner in host.added:
            for term in _required(owner.affinity):
                mine = host.domains(term.topology_key)
                if not mine:
                    yield f"affinity of {owner.uid}: {host.name} has no {term.topology_key}"
                chosen = [
                    e for e in everyone if e[1] is not owner and _selected_by(owner, term, e[1])
                ]
                for domain in sorted(mine):
                    if not any(h.domains(term.topology_key) == {domain} for h, _, _ in chosen):
                        yield from _may_start(owner, term, domain, chosen)


def _may_start(
    owner: Pod, term: AffinityTerm, domain: str, chosen: list[tuple[Host, Pod, bool]]
) -> Iterator[str]:
    """SCH-80: the first pod of a rule that selects itself starts anywhere."""
    before = [h for h, _, is_new in chosen if not is_new]
    taken = {d for h in before for d in h.domains(term.topology_key)}
    open_to_it = any(_certainly_permits(owner, term.topology_key, d) for d in taken)
    if not _selected_by(owner, term, owner) or open_to_it:
        yield f"affinity of {owner.uid}: nobody it wants is in {domain}"


def _one_start(hosts: list[Host]) -> Iterator[str]:
    """A rule that started by itself in two domains although either was open to all its owners."""
    rules: dict[tuple[str, str], tuple[AffinityTerm, dict[str, list[Pod]]]] = {}
    everyone = list(_everyone(hosts))
    for host in hosts:
        for owner in host.added:
            for term in _required(owner.affinity):
                mine = host.domains(term.topology_key)
                if len(mine) == 1 and _selected_by(owner, term, owner):
                    _, by_domain = rules.setdefault((repr(term), owner.namespace), (term, {}))
                    by_domain.setdefault(min(mine), []).append(owner)
    for term, by_domain in rules.values():
        started = [d for d in sorted(by_domain) if _started(d, term, by_domain[d], everyone)]
        owners = [o for domain in started for o in by_domain[domain]]
        everywhere = all(
            _certainly_permits(o, term.topology_key, d) for o in owners for d in started
        )
        if len(started) > 1 and everywhere:
            names = ", ".join(o.uid for o in owners)
            yield f"affinity of {names} started in {', '.join(started)} instead of one domain"


def _started(
    domain: str, term: AffinityTerm, owners: list[Pod], everyone: list[tuple[Host, Pod, bool]]
) -> bool:
    """Is nobody selected in the domain but the rule's own planned owners?"""
    own = {owner.uid for owner in owners}
    return not any(
        domain in host.domains(term.topology_key)
        and pod.uid not in own
        and _selected_by(owners[0], term, pod)
        for host, pod, _ in everyone
    )


def _certainly_permits(pod: Pod, key: str, domain: str) -> bool:
    """Whichever of its alternatives was used, the pod may be in this domain."""
    labels = {keys.normalise(key): frozenset({domain})}
    return all(
        always_holds(e, labels)
        for term in alternatives(pod)
        for e in term
        if keys.normalise(e.key) in labels
    )


def _spread(hosts: list[Host], reachable: Reachable) -> Iterator[str]:
    seen: set[tuple[object, ...]] = set()
    for host in hosts:
        for owner in host.added:
            for rule in owner.spread:
                if rule.when_unsatisfiable != "DoNotSchedule" or len(owner.required_terms) > 1:
                    continue
                mine = host.domains(rule.topology_key)
                if len(mine) != 1:
                    yield f"spread of {owner.uid}: its {rule.topology_key} is not decided"
                    continue
                at = (_identity(owner, rule), min(mine))
                if at not in seen:
                    seen.add(at)
                    yield from _skew(owner, rule, min(mine), hosts, reachable)


def _identity(owner: Pod, rule: SpreadConstraint) -> tuple[object, ...]:
    """What two owners must share to be one group (SCH-70)."""
    own = tuple(owner.labels.get(key, "") for key in rule.match_label_keys)
    filters = (sorted(owner.node_selector.items()), owner.required_terms, owner.tolerations)
    return (owner.namespace, repr(rule), own, repr(filters))


def _skew(
    owner: Pod, rule: SpreadConstraint, domain: str, hosts: list[Host], reachable: Reachable
) -> Iterator[str]:
    identity = _identity(owner, rule)
    counts, here = dict.fromkeys(reachable(owner, keys.normalise(rule.topology_key)), 0), 0
    for host in hosts:
        where = host.domains(rule.topology_key)
        if len(where) != 1 or not _counts(owner, rule, host):
            continue
        chosen = [p for p in (*host.staying, *host.added) if _spread_selects(owner, rule, p)]
        if chosen or host.is_lasting:
            counts[min(where)] = counts.get(min(where), 0) + len(chosen)
        if where == {domain}:
            owners = [p for p in chosen if identity in [_identity(p, r) for r in p.spread]]
            here += len({id(p) for p in owners} | {id(p) for p in chosen if p in host.staying})
    smallest = _smallest(rule, counts)
    if here - smallest > rule.max_skew:
        yield (
            f"spread of {owner.uid}: {here} pods in {domain}, {smallest} in the smallest domain"
            f" of {rule.topology_key}, maxSkew {rule.max_skew}"
        )


def _smallest(rule: SpreadConstraint, counts: dict[str, int]) -> int:
    too_few = rule.min_domains is not None and len(counts) < rule.min_domains
    if keys.normalise(rule.topology_key) == keys.HOSTNAME or too_few:
        return 0
    return min(counts.values(), default=0)


def _spread_selects(owner: Pod, rule: SpreadConstraint, pod: Pod) -> bool:
    own = {k: owner.labels[k] for k in rule.match_label_keys if k in owner.labels}
    wanted = {**rule.match_labels, **own}
    return selects(wanted, rule.expressions, (owner.namespace,), pod)


def _counts(owner: Pod, rule: SpreadConstraint, host: Host) -> bool:
    """SCH-76: does the host belong to the domains that this rule looks at?"""
    if rule.node_affinity_policy == "Honor" and not may_run_on(owner, host.labels):
        return False
    return rule.node_taints_policy != "Honor" or tolerated(host.taints, owner.tolerations)
