"""What a pod would rather have, given up one step at a time when it cannot be placed (SCH-20..26).

Preferences are hard at first; ``relax`` returns the pod with exactly one of them dropped, in
Karpenter's order, or None when only real requirements are left. It works on a copy: the next plan
starts from the pod as it was written (SCH-25).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from shared.domain.expressions import PREFER_NO_SCHEDULE, Expression, Toleration
from shared.domain.requirements import Requirements
from shared.domain.workloads.pods import AffinityTerm, Pod, PreferredTerm

SCHEDULE_ANYWAY = "ScheduleAnyway"
IGNORE = "Ignore"
NOTHING = Requirements()
TOLERATE_PREFERRED = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


def strict_requirements(pod: Pod) -> Requirements:
    """Node selector and the first required term. Raises InvalidObject for a broken expression."""
    if not pod.required_terms and not pod.node_selector:
        return NOTHING
    terms = pod.required_terms[0] if pod.required_terms else ()
    return Requirements.of(terms, pod.node_selector)


def heaviest(terms: tuple[PreferredTerm, ...]) -> PreferredTerm | None:
    """The term with the largest weight; the first of equals."""
    return max(terms, key=lambda term: term.weight) if terms else None


def pod_requirements(pod: Pod) -> Requirements:
    """SCH-20: strict requirements and the heaviest preferred term. Raises InvalidObject."""
    preferred: PreferredTerm | None = heaviest(pod.preferred_terms)
    expressions: tuple[Expression, ...] = preferred.expressions if preferred else ()
    return strict_requirements(pod).intersect(Requirements.of(expressions))


def without_preferences(pod: Pod) -> Pod:
    """SCH-26: PREFERENCE_POLICY=Ignore."""
    return replace(
        pod,
        preferred_terms=(),
        affinity=tuple(term for term in pod.affinity if term.weight is None),
        anti_affinity=tuple(term for term in pod.anti_affinity if term.weight is None),
        spread=tuple(s for s in pod.spread if s.when_unsatisfiable != SCHEDULE_ANYWAY),
    )


def relax(pod: Pod, *, tolerate_preferred: bool) -> Pod | None:
    """SCH-23: one relaxation. ``tolerate_preferred``: some pool has a PreferNoSchedule taint."""
    if len(pod.required_terms) > 1:
        return replace(pod, required_terms=pod.required_terms[1:])
    if (kept := _without_heaviest(pod.affinity)) is not None:
        return replace(pod, affinity=kept)
    if (kept := _without_heaviest(pod.anti_affinity)) is not None:
        return replace(pod, anti_affinity=kept)
    if (heavy := heaviest(pod.preferred_terms)) is not None:
        left = list(pod.preferred_terms)
        left.remove(heavy)
        return replace(pod, preferred_terms=tuple(left))
    return _without_soft_spread(pod) or _tolerating(pod, tolerate_preferred)


def _without_heaviest(terms: tuple[AffinityTerm, ...]) -> tuple[AffinityTerm, ...] | None:
    preferred = [(term.weight, -i) for i, term in enumerate(terms) if term.weight is not None]
    if not preferred:
        return None
    dropped = -max(preferred)[1]
    return terms[:dropped] + terms[dropped + 1 :]


def _without_soft_spread(pod: Pod) -> Pod | None:
    for i, constraint in enumerate(pod.spread):
        if constraint.when_unsatisfiable == SCHEDULE_ANYWAY:
            return replace(pod, spread=pod.spread[:i] + pod.spread[i + 1 :])
    return None


def _tolerating(pod: Pod, tolerate_preferred: bool) -> Pod | None:
    if not tolerate_preferred or TOLERATE_PREFERRED in pod.tolerations:
        return None
    return replace(pod, tolerations=(*pod.tolerations, TOLERATE_PREFERRED))


def dropped(before: Pod, after: Pod) -> str:
    """SCH-24: what ``relax`` took from the first for the second, for a log."""
    for path, of in _PREFERENCES.items():
        left, preferences = list(of(after)), list(of(before))
        for index, one in enumerate(preferences):
            if index == len(left) or left[index] != one:
                return f"removing: spec.{path}[{index}]={msgspec.json.encode(one).decode()}"
    return f"adding: toleration for {PREFER_NO_SCHEDULE} taints"


def _weighted(terms: tuple[AffinityTerm, ...]) -> list[AffinityTerm]:
    return [term for term in terms if term.weight is not None]


_PREFERRED, _REQUIRED = (
    f"{when}DuringSchedulingIgnoredDuringExecution" for when in ("preferred", "required")
)
_PREFERENCES: dict[str, Callable[[Pod], Sequence[Any]]] = {
    f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms": lambda pod: pod.required_terms,
    f"affinity.podAffinity.{_PREFERRED}": lambda pod: _weighted(pod.affinity),
    f"affinity.podAntiAffinity.{_PREFERRED}": lambda pod: _weighted(pod.anti_affinity),
    f"affinity.nodeAffinity.{_PREFERRED}": lambda pod: pod.preferred_terms,
    "topologySpreadConstraints": lambda pod: pod.spread,
}
"""Where a pod writes what ``relax`` may drop."""
