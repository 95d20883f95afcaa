"""Topology rules made from the spread constraints and affinity terms of a pod.

Pods with equal constraints share a rule and its counts (SCH-70).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.expressions import Toleration
from shared.domain.requirements import Requirements
from shared.domain.workloads.pods import AffinityTerm, Pod, SpreadConstraint
from shared.solver.placement.relaxation import SCHEDULE_ANYWAY
from shared.solver.topology.selectors import Selector, affinity_selector, spread_selector

_HONOR, _IGNORE = "Honor", "Ignore"


class Kind(StrEnum):
    """What a rule was made from."""

    SPREAD = "topology spread"
    AFFINITY = "pod affinity"
    ANTI_AFFINITY = "pod anti-affinity"


SPREAD, AFFINITY, ANTI_AFFINITY = Kind


class Rule(NamedTuple):
    """The identity of a constraint (SCH-70). ``inverse``: the rule counts its owners and excludes selected pods."""

    kind: Kind
    key: str
    selector: Selector
    max_skew: int = 0
    min_domains: int | None = None
    node_filter: tuple[Requirements, ...] = ()
    """Nodes that meet one of them count; empty: all count, as with nodeAffinityPolicy Ignore (SCH-76)."""
    inverse: bool = False
    tolerations: tuple[Toleration, ...] | None = None
    """nodeTaintsPolicy Honor: only nodes whose taints are tolerated by these count; None: all nodes count."""


def required(terms: tuple[AffinityTerm, ...]) -> list[AffinityTerm]:
    """The required terms."""
    return [term for term in terms if term.weight is None]


def inverse_rule(pod: Pod, term: AffinityTerm) -> Rule:
    """A required anti-affinity as a rule for the pods that it excludes (SCH-82)."""
    key = keys.normalise(term.topology_key)
    return Rule(ANTI_AFFINITY, key, affinity_selector(pod, term), inverse=True)


def owned_rules(pod: Pod) -> list[Rule]:
    """A pod's own rules in the order in which they narrow: spread, affinity, anti-affinity."""
    node_filter = _node_filter(pod) if pod.spread else ()
    found = [_spread_rule(pod, constraint, node_filter) for constraint in pod.spread]
    for kind, terms in ((AFFINITY, pod.affinity), (ANTI_AFFINITY, pod.anti_affinity)):
        found += [
            Rule(kind, keys.normalise(t.topology_key), affinity_selector(pod, t)) for t in terms
        ]
    return found


def _spread_rule(
    pod: Pod, constraint: SpreadConstraint, node_filter: tuple[Requirements, ...]
) -> Rule:
    """A spread constraint's rule; minDomains is ignored with ScheduleAnyway (SCH-75)."""
    is_hard = constraint.when_unsatisfiable != SCHEDULE_ANYWAY
    return Rule(
        SPREAD,
        keys.normalise(constraint.topology_key),
        spread_selector(pod, constraint),
        constraint.max_skew,
        constraint.min_domains if is_hard else None,
        () if constraint.node_affinity_policy == _IGNORE else node_filter,
        tolerations=pod.tolerations if constraint.node_taints_policy == _HONOR else None,
    )


def _node_filter(pod: Pod) -> tuple[Requirements, ...]:
    """Each required term with the node selector; empty when the pod allows every node. kube-scheduler counts by the
    spec, whatever terms the planner has given up."""
    terms = pod.required_terms if pod.written_terms is None else pod.written_terms
    if not terms and not pod.node_selector:
        return ()
    return tuple(Requirements.of(term, pod.node_selector) for term in terms or ((),))
