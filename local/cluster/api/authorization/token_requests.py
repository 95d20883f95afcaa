"""The ``token`` subresource of a ServiceAccount, which ``kubectl create token`` uses."""

from __future__ import annotations

from typing import Any

from local.cluster.api.authorization.tokens import Tokens
from local.cluster.api.errors import bad_request, invalid, invalid_value
from local.cluster.builtin.resources import TOKEN_REQUEST
from shared.concurrency.clock import rfc3339

SHORTEST_SECONDS, USUAL_SECONDS, LONGEST_SECONDS = 600, 3_600, 1 << 32


def answer_request(tokens: Tokens, account: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The TokenRequest with its token. Raises ApiError 400 and 422."""
    spec = body.get("spec") or {}
    seconds, audiences = spec.get("expirationSeconds"), spec.get("audiences") or []
    seconds = USUAL_SECONDS if seconds is None else seconds
    if not isinstance(seconds, int) or not isinstance(audiences, list):
        raise bad_request("spec.expirationSeconds must be a number, spec.audiences a list")
    if spec.get("boundObjectRef"):
        raise bad_request("spec.boundObjectRef: this cluster binds tokens to ServiceAccounts only")
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        few = seconds < SHORTEST_SECONDS
        limit = "less than 10 minutes" if few else f"more than {LONGEST_SECONDS} seconds"
        text = f"may not specify a duration {limit}"
        fault = invalid_value("spec.expirationSeconds", seconds, text)
        raise invalid(TOKEN_REQUEST, account["metadata"]["name"], [fault])
    token, ends = tokens.issue(account, audiences, seconds)
    return {
        **body,
        "kind": TOKEN_REQUEST.kind,
        "apiVersion": TOKEN_REQUEST.api_version,
        "metadata": {key: account["metadata"][key] for key in ("name", "namespace")},
        "spec": {**spec, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": rfc3339(ends)},
    }
