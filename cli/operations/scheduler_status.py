"""Requests to the scheduler's status server, for commands that explain or control disruption.

Errors: no stack runs and no variable names a scheduler; the scheduler does not answer; it does not know the node. Each
message names the next step.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cli.stack.requests import TOKEN, Reply, exchange, is_in_cluster
from shared.errors import (
    ConfigurationError,
    DovetailError,
    NotFound,
    Unauthorized,
    Unavailable,
    Unreachable,
)

VARIABLE = "DOVETAIL_SCHEDULER_URL"
READ_TIMEOUT_SECONDS = 10.0
COMPUTE_TIMEOUT_SECONDS = 130.0
"""For a request that the scheduler has to compute, such as a simulation."""
ANSWER_LIMIT_BYTES = 16 * 2**20
MOST_REPLICAS_ASKED = 8


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


def named(text: str, listed_by: str) -> str:
    """``text``, which names one thing. Raises ConfigurationError where it is empty, as an unset shell variable is."""
    if not text:
        raise ConfigurationError(f"the name is empty; `{listed_by}` lists what there is")
    return text


def compute(
    base: str, path: str, body: Mapping[str, Any], *, listed_by: str = "kubectl get nodes"
) -> Any:
    """The answer to a question that the scheduler at ``base`` has to compute, as by ``ask``. The answer may take two
    minutes, so a scheduler that stands still is looked for first."""
    with suppress(Unauthorized):  # The question names the right that it needs.
        _reply(f"{base}/healthz", None, READ_TIMEOUT_SECONDS, "")
    return ask(f"{base}/{path}", body, listed_by=listed_by, seconds=COMPUTE_TIMEOUT_SECONDS)


def ask(
    url: str,
    body: Mapping[str, Any] | None = None,
    *,
    listed_by: str = "kubectl get nodes",
    private: bool = False,
    seconds: float = READ_TIMEOUT_SECONDS,
) -> Any:
    """The JSON answer of GET, or of POST with a body. ``listed_by``: the command that lists what can be asked about;
    ``private``: a GET that needs a token. Raises NotFound, ConfigurationError, Unavailable, Unreachable."""
    # Where no token is needed, none is sent.
    token = os.environ.get(TOKEN, "") if private or body is not None else ""
    for _ in range(MOST_REPLICAS_ASKED):
        reply = _reply(url, body, seconds, token)
        # Behind a Service each request goes to a replica chosen by chance.
        if not (is_in_cluster(url) and _is_standby(reply)):
            break
    if reply.status >= 300:  # a POST is not sent again to where a redirection leads
        raise _refusal(url, reply, listed_by)
    return reply.document


def _reply(url: str, body: Mapping[str, Any] | None, seconds: float, token: str) -> Reply:
    try:
        return exchange(url, body, seconds=seconds, limit=ANSWER_LIMIT_BYTES, token=token)
    except Unreachable as error:
        raise Unreachable(
            f"the scheduler does not answer at {url} ({error.message}); `dovetail status` shows what runs"
        ) from error


def _is_standby(reply: Reply) -> bool:
    return isinstance(reply.document, dict) and bool(reply.document.get("standby"))


def _refusal(url: str, reply: Reply, listed_by: str) -> DovetailError:
    try:
        problem = str(reply.document["error"])
    except (KeyError, TypeError):
        problem = f"{url} answered {reply.status}"
    if reply.status == 404:
        return NotFound(f"{problem}; `{listed_by}` lists them")
    if reply.status == 401:
        audience = " --audience dovetail" if is_in_cluster(url) else ""
        return ConfigurationError(
            f"{problem}; set {TOKEN} to the output of: kubectl create token ACCOUNT{audience}"
        )
    if reply.status >= 500:
        return Unavailable(f"{problem}; see the scheduler's log")
    return ConfigurationError(problem)
