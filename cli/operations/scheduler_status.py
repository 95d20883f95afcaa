"""Questions to the scheduler's status server, for commands that explain or steer disruption.

What may go wrong: no stack runs and no variable names a scheduler; it does not answer; it has no such node. Each
message says what to do next.
"""

from __future__ import annotations

import json
import os
import urllib.error
from collections.abc import Mapping
from typing import Any

from local.probe import exchange_json
from shared.errors import ConfigurationError, NotFound, Unavailable, Unreachable

VARIABLE = "DOVETAIL_SCHEDULER_URL"
TOKEN = "DOVETAIL_TOKEN"
"""A Kubernetes token, where the scheduler asks for one (QUESTIONS=authenticated)."""
PATIENCE_SECONDS = 10.0
WORK_SECONDS = 130.0
"""For a question that the scheduler has to compute."""
MOST_BYTES = 16 * 2**20
MOST_TOLD = 64 * 2**10


def scheduler_url(variables: Mapping[str, str]) -> str:
    """Raises ConfigurationError with the ways to name it."""
    url = variables.get(VARIABLE, "")
    if not url:
        raise ConfigurationError(
            f"no stack runs here and {VARIABLE} is not set; run `dovetail up --detach`, or in a cluster: "
            "kubectl port-forward -n dovetail deploy/dovetail-scheduler 8080, then "
            f"export {VARIABLE}=http://127.0.0.1:8080"
        )
    return url.rstrip("/")


def ask(url: str, body: Mapping[str, Any] | None = None) -> Any:
    """The JSON answer of GET, or of POST with a body. Raises NotFound, ConfigurationError, Unavailable, Unreachable."""
    patience = PATIENCE_SECONDS if body is None else WORK_SECONDS
    # A GET reveals no more to who has a token; it is not sent where it is not needed.
    token = "" if body is None else os.environ.get(TOKEN, "")
    try:
        return exchange_json(url, body, timeout=patience, limit=MOST_BYTES, token=token)
    except urllib.error.HTTPError as refused:
        raise _refusal(url, refused) from refused
    except (OSError, ValueError) as error:
        raise Unreachable(
            f"the scheduler does not answer at {url} ({error}); `dovetail status` says what runs"
        ) from error


def _refusal(
    url: str, refused: urllib.error.HTTPError
) -> NotFound | ConfigurationError | Unavailable:
    try:
        told = str(json.loads(refused.read(MOST_TOLD))["error"])
    except (ValueError, KeyError, TypeError):
        told = f"{url} answered {refused.code}"
    if refused.code == 404:
        return NotFound(f"{told}; `kubectl get nodes` lists them")
    if refused.code == 401:
        return ConfigurationError(f"{told}; put one into {TOKEN}: kubectl create token ACCOUNT")
    if refused.code >= 500:
        return Unavailable(f"{told}; the scheduler's log says why")
    return ConfigurationError(told)
