"""Decides whether a pod may be evicted now, and charges its disruption budget.

A plain decision that follows the real server's ``registry/core/pod/storage/eviction.go``: pods that do not serve
(Pending, finished, already being deleted) need no budget; two budgets for one pod are a configuration error (500); an
unready pod of a healthy workload is not charged. While the disruption controller's ``observedGeneration`` of a budget
lags behind, the answer is 429, as for an exhausted budget.
"""

from __future__ import annotations

from typing import Any

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.conditions import is_true
from local.cluster.storage.selectors import selector_matches
from local.cluster.storage.watches import Document
from shared.concurrency.clock import rfc3339

SEVERAL_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
BUSY_SECONDS = 10


def needs_budget(pod: Document) -> bool:
    """Whether the eviction of ``pod`` disrupts a pod that a budget counts."""
    phase = pod.get("status", {}).get("phase")
    unserving = phase in ("Succeeded", "Failed", "Pending")
    return not unserving and not pod["metadata"].get("deletionTimestamp")


def budget_of(pod: Document, budgets: list[Document]) -> Document | None:
    """The one budget of ``budgets`` (same namespace) that selects ``pod``.

    Raises ApiError 500 for several.
    """
    labels = pod["metadata"].get("labels") or {}
    chosen = [b for b in budgets if selector_matches(b["spec"].get("selector"), labels)]
    if len(chosen) > 1:
        raise ApiError(500, "InternalError", SEVERAL_BUDGETS)
    return chosen[0] if chosen else None


def charged(pod: Document, budget: Document, now: float) -> Document | None:
    """The budget's status after this eviction, or None when the eviction is not charged. Raises ApiError 429."""
    status = budget.get("status", {})
    if not is_true(pod, "Ready") and _unready_is_not_charged(budget):
        return None
    observed = status.get("observedGeneration")
    name = budget["metadata"]["name"]
    if observed is not None and observed < budget["metadata"].get("generation", 1):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _refusal(text, retry_after=BUSY_SECONDS)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        raise _refusal(
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
    disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: rfc3339(now)}
    return {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}


def _unready_is_not_charged(budget: Document) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _refusal(text: str, retry_after: int = 0) -> ApiError:
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(429, "TooManyRequests", VIOLATION, details)
