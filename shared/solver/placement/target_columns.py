"""Existing capacity as arrays: free resources, and which targets' taints and labels allow a class of pods."""

from __future__ import annotations

from copy import copy

import numpy as np

from shared.domain.expressions import Toleration
from shared.domain.requirements import Requirements
from shared.solver.encode import Amounts, Indices, Mask
from shared.solver.placement.existing import ExistingTarget
from shared.solver.pod_classes import PodClass

_TAINTS = "/taints"
"""A key of ``codes`` beside label keys; no label key begins with a slash."""


class TargetColumns:
    """``room``: [resources, targets]."""

    def __init__(self, targets: list[ExistingTarget], width: int) -> None:
        self._targets = targets
        by_target = np.array([target.room for target in targets], dtype=np.int64)
        self.room: Amounts = np.ascontiguousarray(by_target.reshape(len(targets), width).T)
        self._open: Mask = np.all(self.room >= 0, axis=0)
        self._suited: dict[tuple[Requirements, tuple[Toleration, ...]], Mask] = {}
        self._codes: dict[str, Indices] = {}
        self._by_domain: dict[str, tuple[Indices, Indices, Indices]] = {}

    def without(self, places: list[int]) -> TargetColumns:
        """The same targets, of which those at ``places`` take no pods; what is known of their labels is shared."""
        found = copy(self)
        found.room = self.room.copy()
        found.room[:, places] = -1
        return found

    def codes(self, key: str) -> Indices:
        """[targets]: numbers that are equal for equal values of a label, or for equal taints with ``_TAINTS``."""
        if key not in self._codes:
            codes: dict[object, int] = {}
            values = (t.taints if key == _TAINTS else t.possible(key) for t in self._targets)
            numbers = [codes.setdefault(value, len(codes)) for value in values]
            self._codes[key] = np.array(numbers, dtype=np.intp)
        return self._codes[key]

    def by_domain(self, key: str) -> tuple[Indices, Indices, Indices]:
        """The targets, those with equal values of a label next to each other and in order; where each value begins
        among them; and [targets in that order] the number of the value."""
        found = self._by_domain.get(key)
        if found is None:
            order = np.argsort(self.codes(key), kind="stable")
            _, begins, domain = np.unique(
                self.codes(key)[order], return_index=True, return_inverse=True
            )
            found = self._by_domain[key] = order, begins, domain
        return found

    def suited(self, pods: PodClass) -> Mask:
        """[targets]: taints and labels allow the class. Cached for equal requirements and tolerations."""
        at = (pods.requirements, pods.pod.tolerations)
        found = self._suited.get(at)
        if found is None:
            found = self._suited[at] = self._allowed(pods)
        return found

    def _allowed(self, pods: PodClass) -> Mask:
        """Computed once per distinct combination of taints and labels."""
        combined = self.codes(_TAINTS)
        for wanted in pods.requirements:
            codes = self.codes(wanted.key)
            both = combined * (int(codes.max()) + 1) + codes
            combined = np.unique(both, return_inverse=True)[1]
        _, firsts, kinds = np.unique(combined, return_index=True, return_inverse=True)
        asked = (pods.requirements, pods.pod.tolerations)
        verdicts = [self._targets[int(first)].allows(*asked) for first in firsts]
        allowed: Mask = np.array(verdicts, dtype=np.bool_)[kinds]
        return allowed & self._open
