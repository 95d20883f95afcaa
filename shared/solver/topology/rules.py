"""From the spread constraints and affinity terms of a pod to rules that topology can count by.

Pods whose constraints say the same share a rule and its counts (SCH-70).
"""

from __future__ import annotations

from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.expressions import Toleration
from shared.domain.requirements import Requirements
from shared.domain.workloads.pods import AffinityTerm, Pod, SpreadConstraint
from shared.solver.placement.relaxation import IGNORE, SCHEDULE_ANYWAY, strict_requirements
from shared.solver.topology.selectors import Selector, of_spread, of_term

SPREAD, AFFINITY, ANTI_AFFINITY = "topology spread", "pod affinity", "pod anti-affinity"
_HONOR = "Honor"


class Rule(NamedTuple):
    """What makes two constraints the same (SCH-70). ``inverse``: counts owners, blocks selected
    pods.
    """

    kind: str
    key: str
    selector: Selector
    max_skew: int = 0
    min_domains: int | None = None
    node_filter: tuple[Requirements, ...] = ()
    inverse: bool = False
    everywhere: bool = False
    """nodeAffinityPolicy Ignore: nodes count although the pod may not use them (SCH-76)."""
    tolerations: tuple[Toleration, ...] | None = None
    """nodeTaintsPolicy Honor: nodes count only if these tolerate their taints; None: all count."""


def required(terms: tuple[AffinityTerm, ...]) -> list[AffinityTerm]:
    """Without the preferred ones."""
    return [term for term in terms if term.weight is None]


def inverse_rule(pod: Pod, term: AffinityTerm) -> Rule:
    """SCH-82: a required anti-affinity as those see it whom it keeps out."""
    key = keys.normalise(term.topology_key)
    return Rule(ANTI_AFFINITY, key, of_term(pod, term), inverse=True)


def owned_rules(pod: Pod) -> list[Rule]:
    """A pod's own rules in the order they narrow: spread, affinity, anti-affinity."""
    node_filter = _node_filter(pod) if pod.spread else ()
    found = [_spread_rule(pod, constraint, node_filter) for constraint in pod.spread]
    for kind, terms in ((AFFINITY, pod.affinity), (ANTI_AFFINITY, pod.anti_affinity)):
        found += [Rule(kind, keys.normalise(t.topology_key), of_term(pod, t)) for t in terms]
    return found


def _spread_rule(
    pod: Pod, constraint: SpreadConstraint, node_filter: tuple[Requirements, ...]
) -> Rule:
    """SCH-75: minDomains has no meaning for a constraint that may be given up."""
    everywhere = constraint.node_affinity_policy == IGNORE
    is_hard = constraint.when_unsatisfiable != SCHEDULE_ANYWAY
    return Rule(
        SPREAD,
        keys.normalise(constraint.topology_key),
        of_spread(pod, constraint),
        constraint.max_skew,
        constraint.min_domains if is_hard else None,
        () if everywhere else node_filter,
        everywhere=everywhere,
        tolerations=pod.tolerations if constraint.node_taints_policy == _HONOR else None,
    )


def _node_filter(pod: Pod) -> tuple[Requirements, ...]:
    """Each required term with the node selector; nothing when the pod goes anywhere."""
    if not pod.required_terms:
        return (strict_requirements(pod),) if pod.node_selector else ()
    return tuple(Requirements.of(term, pod.node_selector) for term in pod.required_terms)
