"""Records of PodDisruptionBudgets for disruption: the protected pods, and the allowed evictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from shared.domain.expressions import Expression, selects_labels
from shared.domain.workloads.pods import Pod

ALWAYS_ALLOW = "AlwaysAllow"


class PodDisruptionBudget(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One budget; ``allowed`` is status.disruptionsAllowed. An empty selector protects the whole namespace."""

    uid: str
    namespace: str
    name: str
    match_labels: dict[str, str] = {}
    expressions: tuple[Expression, ...] = ()
    selects_nothing: bool = False
    """Whether the budget has no selector, so it protects no pod (policy/v1)."""
    allowed: int = 0
    unhealthy_policy: str = ""
    """IfHealthyBudget (default) or AlwaysAllow: then a pod that is not ready may always be evicted."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def protects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the budget protects a pod with these labels."""
        if self.selects_nothing or namespace != self.namespace:
            return False
        return selects_labels(self.match_labels, self.expressions, labels)


def budgets_of(pod: Pod, pdbs: Iterable[PodDisruptionBudget]) -> list[PodDisruptionBudget]:
    """Every budget that protects this pod, in the given order."""
    return [pdb for pdb in pdbs if pdb.protects(pod.namespace, pod.labels)]
