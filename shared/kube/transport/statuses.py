"""Kubernetes ``Status`` answers turned into Dovetail's errors.

Source: the Kubernetes API conventions, "Response Status Kind", and the eviction API. A status may
also come from a proxy or from API priority and fairness as plain text, so only the HTTP code is
relied on. What may go wrong: a body that is not JSON (kept as text, cut at 256 characters).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from shared import errors
from shared.kube.resources import Resource

TEXT_LIMIT = 256
"""Longest part of a server's text in our errors, in characters."""

_ADMISSION = re.compile(
    r"admission webhook|denied the request|ValidatingAdmissionPolicy|exceeded quota"
)
_USER = re.compile(r'User "([^"]{1,200})" cannot')
MULTIPLE_BUDGETS = "more than one PodDisruptionBudget"
"""The eviction API's text, with code 500, for a pod that several budgets select."""


@dataclass(frozen=True, slots=True)
class Call:
    """One API call, with the fields that error texts and RBAC rules need."""

    verb: str
    resource: Resource
    name: str | None = None
    namespace: str | None = None
    subresource: str | None = None

    def __str__(self) -> str:
        return f"{self.verb} {self.target}"

    @property
    def rule(self) -> str:
        """Resource as RBAC writes it, such as ``pods/eviction``."""
        sub = f"/{self.subresource}" if self.subresource else ""
        return self.resource.plural + sub

    @property
    def target(self) -> str:
        """Resource and object as kubectl writes it, such as ``pods/eviction default/web-1``."""
        place = "/".join(part for part in (self.namespace, self.name) if part)
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{self.rule}{group} {place}".rstrip()


def cut(text: str) -> str:
    """At most 256 characters of a text from outside."""
    return text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + "…"


def parse_status(body: bytes) -> dict[str, Any]:
    """The ``Status`` object in an answer, or one made from its text."""
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if isinstance(status, dict):
        return status
    return {"message": body[: TEXT_LIMIT * 4].decode("utf-8", "replace").strip()}


def decode_object(call: Call, body: bytes) -> dict[str, Any]:
    """The JSON object in a successful answer. Raises Unavailable for a body that no API server wrote."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        text = cut(body[: TEXT_LIMIT * 4].decode("utf-8", "replace"))
        raise errors.Unavailable(f"{call}: the answer is not JSON ({error}): {text}") from error
    if not isinstance(value, dict):
        raise errors.Unavailable(f"{call}: the answer is not a JSON object: {cut(str(value))}")
    return value


def retry_after(headers: Mapping[str, str], status: Mapping[str, Any]) -> float:
    """The server's Retry-After in seconds, 0 without one (Kubernetes sends no HTTP dates)."""
    details = status.get("details")
    named = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    try:
        return max(0.0, float(headers.get("Retry-After") or named or 0))
    except ValueError:
        return 0.0


class Contended(errors.Unavailable):
    """The API server wrote nothing because others changed the object at that moment; the same write may succeed now."""


@contextmanager
def contention_recognised(body: object) -> Iterator[None]:
    """A write that names no version can lose no race of its own: raise ``Contended`` where the API server lost one, so
    that a Conflict only says that another object has this name.
    """
    try:
        yield
    except errors.Conflict as error:
        if _names_version(body) or error.context.get("precondition"):
            raise
        raise Contended(error.message) from error


def _names_version(body: object) -> bool:
    """Whether ``body`` is for one version of the object: of an update, a patch or a deletion."""
    parts = (
        [body.get(name) for name in ("metadata", "preconditions")] if isinstance(body, dict) else []
    )
    return any(isinstance(part, dict) and part.get("resourceVersion") for part in parts)


def _conflict(reason: str, text: str, message: str) -> errors.DovetailError:
    if reason == "AlreadyExists":
        return errors.AlreadyExists(message)
    return errors.Conflict(message, precondition="precondition" in text.lower())


def error_of(
    call: Call, code: int, status: Mapping[str, Any], headers: Mapping[str, str]
) -> errors.DovetailError:
    """The error to raise for an answer with ``code`` of 400 or above."""
    text = cut(str(status.get("message") or "no message"))
    reason = str(status.get("reason") or "")
    message = f"{call}: {text} ({code})"
    if code == 404:
        return _not_found(call, status, message)
    if code == 409:
        return _conflict(reason, str(status.get("message") or ""), message)
    if code == 410:
        return errors.Gone(message)
    if code in (401, 403):
        return _unauthorized(call, code, text)
    if code == 429 or code >= 500 or code == 408:
        return _busy(call, code, status, headers, message)
    return errors.InvalidObject(f"{text} ({call}, {code})", field=_field(status))


def _not_found(call: Call, status: Mapping[str, Any], message: str) -> errors.NotFound:
    details = status.get("details")
    named = isinstance(details, dict) and bool(details.get("name"))
    if call.name and (named or call.verb not in ("list", "watch")):
        return errors.NotFound(message)
    fix = f"the API server serves no {call.resource.qualified} {call.resource.version}"
    return errors.NotFound(f"{message}: {fix}; install Dovetail's CRDs or check the namespace")


def _unauthorized(call: Call, code: int, text: str) -> errors.Unauthorized:
    if code == 401:
        fix = "credentials are missing, wrong or expired; check KUBECONFIG or the service account"
    elif _ADMISSION.search(text):  # Gatekeeper's webhook answers 403, as a lack of rights does.
        fix = "an admission policy or a quota of the cluster refuses it; change that, or what it asks for"
    else:
        who = _USER.search(text)  # a person's own, in a command
        fix = (
            f'grant verb "{call.verb}" on resource "{call.rule}" in apiGroup '
            f'"{call.resource.group}" to {who[1] if who else "the caller"}'
        )
    return errors.Unauthorized(
        f"{call}: {text} ({code}): {fix}", verb=call.verb, resource=call.rule
    )


def _busy(
    call: Call, code: int, status: Mapping[str, Any], headers: Mapping[str, str], message: str
) -> errors.DovetailError:
    wait = retry_after(headers, status)
    if call.subresource == "eviction":
        if code == 429 and _is_budget_refusal(status):
            return errors.EvictionBlocked(message, multiple=False, retry_after=wait)
        if code == 500 and MULTIPLE_BUDGETS in str(status.get("message")):
            fix = "at most one PodDisruptionBudget may select a pod"
            return errors.EvictionBlocked(f"{message}: {fix}", multiple=True, retry_after=wait)
    return (errors.Throttled if code == 429 else errors.Unavailable)(
        message, code=code, retry_after=wait
    )


def _is_budget_refusal(status: Mapping[str, Any]) -> bool:
    """Whether a 429 comes from a budget: unlike one of API priority and fairness it names its cause or the budget."""
    if any(cause.get("reason") == "DisruptionBudget" for cause in _causes(status)):
        return True
    return "disruption budget" in str(status.get("message")).lower()


def _field(status: Mapping[str, Any]) -> str:
    fields = (str(cause.get("field") or "") for cause in _causes(status))
    return next((field for field in fields if field), "object")


def _causes(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return [cause for cause in causes or [] if isinstance(cause, dict)]
