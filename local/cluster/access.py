"""Access reviews:

everybody may do everything in the embedded cluster, and this says so in the API's words.
"""

from __future__ import annotations

from typing import Any

from local.cluster.errors import no_such_path
from local.cluster.resources import ACCESS_GROUP, REVIEWS

REASON = "the embedded cluster allows everything"


def review(plural: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answered review. Raises ApiError 404 for a kind that is not a review."""
    kind = next((resource.kind for resource in REVIEWS if resource.plural == plural), None)
    if kind is None:
        raise no_such_path()
    status: dict[str, Any] = {"allowed": True, "reason": REASON}
    if kind == "SelfSubjectRulesReview":
        everything: dict[str, Any] = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        status = {
            "resourceRules": [everything],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }
    return {**body, "kind": kind, "apiVersion": f"{ACCESS_GROUP}/v1", "status": status}
