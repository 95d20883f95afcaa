"""Authenticates and authorizes HTTP callers of a service by their Kubernetes token.

TokenReview authenticates the token; SubjectAccessReview checks that its user may use the path (a ClusterRole with
``nonResourceURLs``). Verdicts are cached for some seconds, so that neither a busy nor a hostile caller causes many API
calls; a changed role takes effect after that time.

A token comes in one of two headers. ``Authorization: Bearer`` has a token for the API server. An API server that passes
a request on to a Service (``services/proxy``) removes that header; then ``X-Dovetail-Token`` has a token for the
audience ``dovetail``, which no API server accepts, so that a service that was taken over can do nothing with it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.concurrency.clock import Clock
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS

VERDICT_CACHE_SECONDS = 10.0
CACHED_VERDICTS_LIMIT = 256
CONCURRENT_REVIEWS_LIMIT = 4
TOKEN_CHARACTERS_LIMIT = 16_384
AUDIENCE = "dovetail"
HEADER = "X-Dovetail-Token"
_AUDIENCES: Mapping[str, list[str]] = {"bearer": [], "dovetail": [AUDIENCE]}
"""By scheme of the credential. Without audiences the API server takes itself for the audience."""


def credential_of(headers: Mapping[str, str]) -> str:
    """The credential of a request: the header Authorization, or the token of ``HEADER`` with the scheme Dovetail.

    The names of ``headers`` must be found whatever their case.
    """
    token = headers.get(HEADER, "")
    return f"Dovetail {token}" if token else headers.get("Authorization", "")


@dataclass(frozen=True)
class Verdict:
    """``status`` 200: the request is allowed. Otherwise the HTTP status to answer with, and its ``reason``."""

    status: int
    reason: str = ""
    user: str = ""
    """Of an allowed request: the name by which the API server knows the caller."""


_YES = Verdict(200)


@dataclass
class TokenAccess:
    """Checks tokens at the API server."""

    kube: Kube
    clock: Clock
    verb: str = "post"
    """The verb of the ClusterRole's rule: ``post`` or ``get``."""
    _kept: OrderedDict[tuple[str, str], tuple[float, Verdict]] = field(
        default_factory=OrderedDict, init=False
    )
    """(digest of the token, path) -> (monotonic time of expiry, verdict); oldest first."""
    _reviews: int = field(default=0, init=False)

    async def judge(self, credential: str, path: str) -> Verdict:
        """Whether a caller with this credential (``credential_of``) may use ``path`` with ``verb``."""
        scheme, _, token = (part.strip() for part in credential.partition(" "))
        audiences = _AUDIENCES.get(scheme.lower())
        if audiences is None or not token:
            return Verdict(401, "send a Kubernetes token: Authorization: Bearer TOKEN")
        if len(token) > TOKEN_CHARACTERS_LIMIT:
            return Verdict(401, "the token is too long")
        if not (token.isascii() and token.isprintable()):
            return Verdict(401, "the token has characters that no token has")
        # With the scheme: a token for one audience must not be let in by the verdict on the other.
        key = (hashlib.sha256(f"{scheme.lower()} {token}".encode()).hexdigest(), path)
        until, verdict = self._kept.get(key, (0.0, _YES))
        if key in self._kept and self.clock.monotonic() < until:
            return verdict
        return await self._review(key, {"token": token, "audiences": audiences}, path)

    async def _review(self, key: tuple[str, str], token: dict[str, Any], path: str) -> Verdict:
        if self._reviews >= CONCURRENT_REVIEWS_LIMIT:
            return Verdict(429, "too many tokens are being reviewed; try again in some seconds")
        self._reviews += 1
        try:
            verdict = await self._verdict(token, path)
        except DovetailError as error:
            return Verdict(503, f"the API server cannot review the token: {error.message}")
        finally:
            self._reviews -= 1
        self._kept[key] = (self.clock.monotonic() + VERDICT_CACHE_SECONDS, verdict)
        self._kept.move_to_end(key)
        while len(self._kept) > CACHED_VERDICTS_LIMIT:
            self._kept.popitem(last=False)
        return verdict

    async def _verdict(self, token: dict[str, Any], path: str) -> Verdict:
        spec = {key: value for key, value in token.items() if value}
        review = await self.kube.create(TOKEN_REVIEWS, {"spec": spec})
        found = review.get("status") or {}
        if not found.get("authenticated"):
            return Verdict(401, "the API server does not accept this token")
        # A server that does not know audiences accepts a token for itself and names no audience.
        if token["audiences"] and AUDIENCE not in (found.get("audiences") or []):
            return Verdict(401, f"the token is not meant for the audience {AUDIENCE}")
        spec = _access(found.get("user") or {}, path, self.verb)
        answer = await self.kube.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        if (answer.get("status") or {}).get("allowed"):
            return Verdict(200, user=spec["user"])
        return Verdict(
            403,
            f"{spec['user']} may not {self.verb} {path}; a ClusterRole with nonResourceURLs allows it",
        )


def _access(user: dict[str, Any], path: str, verb: str) -> dict[str, Any]:
    """The spec of a SubjectAccessReview."""
    spec = {
        "user": user.get("username") or "",
        "uid": user.get("uid") or "",
        "groups": user.get("groups") or [],
        "extra": user.get("extra") or {},
    }
    return spec | {"nonResourceAttributes": {"path": path, "verb": verb}}
