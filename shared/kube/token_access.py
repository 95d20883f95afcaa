"""Authenticates and authorizes HTTP callers of a service by their Kubernetes token.

TokenReview authenticates the token; SubjectAccessReview checks that its user may use the path (a ClusterRole with
``nonResourceURLs``). Verdicts are cached for some seconds, so that neither a busy nor a hostile caller causes many API
calls; a changed role takes effect after that time.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
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
_SCHEME = "bearer "


@dataclass(frozen=True)
class Verdict:
    """``status`` 200: the request is allowed. Otherwise the HTTP status to answer with, and its ``reason``."""

    status: int
    reason: str = ""


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

    async def judge(self, authorization: str, path: str) -> Verdict:
        """Whether a caller with this header may use ``path`` with ``verb``."""
        token = authorization[len(_SCHEME) :].strip()
        if not authorization.lower().startswith(_SCHEME) or not token:
            return Verdict(401, "send a Kubernetes token: Authorization: Bearer TOKEN")
        if len(token) > TOKEN_CHARACTERS_LIMIT:
            return Verdict(401, "the token is too long")
        key = (hashlib.sha256(token.encode()).hexdigest(), path)
        until, verdict = self._kept.get(key, (0.0, _YES))
        if key in self._kept and self.clock.monotonic() < until:
            return verdict
        return await self._review(key, token, path)

    async def _review(self, key: tuple[str, str], token: str, path: str) -> Verdict:
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

    async def _verdict(self, token: str, path: str) -> Verdict:
        review = await self.kube.create(TOKEN_REVIEWS, {"spec": {"token": token}})
        found = review.get("status") or {}
        if not found.get("authenticated"):
            return Verdict(401, "the API server does not accept this token")
        spec = _access(found.get("user") or {}, path, self.verb)
        answer = await self.kube.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        if (answer.get("status") or {}).get("allowed"):
            return _YES
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
