"""Relaxation: preferences of a pod are dropped one at a time when it cannot be placed (SCH-20..26).

Preferences count as requirements at first. ``relax`` returns a copy of the pod without one of them, in Karpenter's
order, or None when only requirements are left. The next plan starts from the original pod (SCH-25).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from shared.domain.expressions import PREFER_NO_SCHEDULE, Expression, Toleration
from shared.domain.requirements import Requirements
from shared.domain.workloads.pods import AffinityTerm, Pod, PreferredTerm

SCHEDULE_ANYWAY = "ScheduleAnyway"
NO_REQUIREMENTS = Requirements()
TOLERATE_PREFERRED = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class PreferencePolicy(StrEnum):
    """What preferences count for: as much as requirements at first, or nothing (SCH-26)."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


RESPECT, IGNORE = PreferencePolicy


def strict_requirements(pod: Pod) -> Requirements:
    """Node selector and first required term. Raises InvalidObject for an invalid expression."""
    if not pod.required_terms and not pod.node_selector:
        return NO_REQUIREMENTS
    terms = pod.required_terms[0] if pod.required_terms else ()
    return Requirements.of(terms, pod.node_selector)


def heaviest(terms: tuple[PreferredTerm, ...]) -> PreferredTerm | None:
    """The term with the largest weight; of equal weights the first; None without terms."""
    return max(terms, key=lambda term: term.weight) if terms else None


def pod_requirements(pod: Pod) -> Requirements:
    """Strict requirements and the heaviest preferred term (SCH-20). Raises InvalidObject."""
    preferred: PreferredTerm | None = heaviest(pod.preferred_terms)
    expressions: tuple[Expression, ...] = preferred.expressions if preferred else ()
    return strict_requirements(pod).intersect(Requirements.of(expressions))


def without_preferences(pod: Pod) -> Pod:
    """The pod for PREFERENCE_POLICY=Ignore (SCH-26)."""
    return replace(
        pod,
        preferred_terms=(),
        affinity=tuple(term for term in pod.affinity if term.weight is None),
        anti_affinity=tuple(term for term in pod.anti_affinity if term.weight is None),
        spread=tuple(s for s in pod.spread if s.when_unsatisfiable != SCHEDULE_ANYWAY),
    )


def relax(pod: Pod, *, tolerate_preferred: bool) -> Pod | None:
    """The pod after one relaxation (SCH-23). ``tolerate_preferred``: some pool has a PreferNoSchedule taint."""
    if len(pod.required_terms) > 1:
        return pod.narrowed_to(pod.required_terms[1:])
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
    """The preference that ``relax`` dropped between these two pods, for a log line (SCH-24)."""
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
"""Path in a pod's spec -> the preferences there that ``relax`` may drop."""
