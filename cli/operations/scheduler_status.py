"""Requests to the scheduler's status server, for commands that explain or control disruption.

Errors: no stack runs and no variable names a scheduler; the scheduler does not answer; it does not know the node. Each
message names the next step.
"""

from __future__ import annotations

import json
import os
import urllib.error
from collections.abc import Mapping
from typing import Any

from local.probe import exchange_json
from shared.errors import ConfigurationError, DovetailError, NotFound, Unavailable, Unreachable

VARIABLE = "DOVETAIL_SCHEDULER_URL"
TOKEN = "DOVETAIL_TOKEN"
"""A Kubernetes token, for a scheduler that requires one (QUESTIONS=authenticated)."""
READ_TIMEOUT_SECONDS = 10.0
COMPUTE_TIMEOUT_SECONDS = 130.0
"""For a request that the scheduler has to compute, such as a simulation."""
ANSWER_LIMIT_BYTES = 16 * 2**20
ERROR_LIMIT_BYTES = 64 * 2**10


def scheduler_url(variables: Mapping[str, str]) -> str:
    """The base URL of the scheduler. Raises ConfigurationError with the ways to set it."""
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
    timeout = READ_TIMEOUT_SECONDS if body is None else COMPUTE_TIMEOUT_SECONDS
    # GET needs no token, so the token is sent only with POST.
    token = "" if body is None else os.environ.get(TOKEN, "")
    try:
        return exchange_json(url, body, timeout=timeout, limit=ANSWER_LIMIT_BYTES, token=token)
    except urllib.error.HTTPError as refused:
        raise _refusal(url, refused) from refused
    except (OSError, ValueError) as error:
        raise Unreachable(
            f"the scheduler does not answer at {url} ({error}); `dovetail status` shows what runs"
        ) from error


def _refusal(url: str, refused: urllib.error.HTTPError) -> DovetailError:
    try:
        problem = str(json.loads(refused.read(ERROR_LIMIT_BYTES))["error"])
    except (ValueError, KeyError, TypeError):
        problem = f"{url} answered {refused.code}"
    if refused.code == 404:
        return NotFound(f"{problem}; `kubectl get nodes` lists them")
    if refused.code == 401:
        return ConfigurationError(
            f"{problem}; set {TOKEN} to the output of: kubectl create token ACCOUNT"
        )
    if refused.code >= 500:
        return Unavailable(f"{problem}; see the scheduler's log")
    return ConfigurationError(problem)
