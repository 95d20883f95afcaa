"""Who may ask a service something: the API server says, by the caller's own token.

TokenReview says whose token it is, SubjectAccessReview whether that user may ``post`` the path (a ClusterRole with
``nonResourceURLs``). Verdicts are kept for some seconds, so that neither a busy caller nor a hostile one makes many
calls; what a role gives or takes counts after that time.
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

KEPT_SECONDS = 10.0
MOST_KEPT = 256
MOST_ASKED_AT_ONCE = 4
MOST_TOKEN_CHARACTERS = 16_384
_SCHEME = "bearer "


@dataclass(frozen=True)
class Verdict:
    """``status`` 200: it may be asked. Otherwise an HTTP status with the reason in words."""

    status: int
    reason: str = ""


_YES = Verdict(200)


@dataclass
class TokenAccess:
    """Asks the API server about tokens."""

    kube: Kube
    clock: Clock
    _kept: OrderedDict[tuple[str, str], tuple[float, Verdict]] = field(
        default_factory=OrderedDict, init=False
    )
    """(digest of the token, path) -> (until when by the monotonic clock, verdict); oldest first."""
    _asking: int = field(default=0, init=False)

    async def judge(self, authorization: str, path: str) -> Verdict:
        """Whether a caller with this header may POST to ``path``."""
        token = authorization[len(_SCHEME) :].strip()
        if not authorization.lower().startswith(_SCHEME) or not token:
            return Verdict(401, "send a Kubernetes token: Authorization: Bearer TOKEN")
        if len(token) > MOST_TOKEN_CHARACTERS:
            return Verdict(401, "the token is too long")
        key = (hashlib.sha256(token.encode()).hexdigest(), path)
        until, verdict = self._kept.get(key, (0.0, _YES))
        if key in self._kept and self.clock.monotonic() < until:
            return verdict
        return await self._ask(key, token, path)

    async def _ask(self, key: tuple[str, str], token: str, path: str) -> Verdict:
        if self._asking >= MOST_ASKED_AT_ONCE:
            return Verdict(429, "too many tokens are being looked at; try again in some seconds")
        self._asking += 1
        try:
            verdict = await self._verdict(token, path)
        except DovetailError as error:
            return Verdict(503, f"the API server cannot say who you are: {error.message}")
        finally:
            self._asking -= 1
        self._kept[key] = (self.clock.monotonic() + KEPT_SECONDS, verdict)
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return verdict

    async def _verdict(self, token: str, path: str) -> Verdict:
        review = await self.kube.create(TOKEN_REVIEWS, {"spec": {"token": token}})
        found = review.get("status") or {}
        if not found.get("authenticated"):
            return Verdict(401, "the API server does not accept this token")
        spec = _access(found.get("user") or {}, path)
        answer = await self.kube.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        if (answer.get("status") or {}).get("allowed"):
            return _YES
        return Verdict(
            403,
            f"{spec['user']} may not post to {path}; a ClusterRole with nonResourceURLs allows it",
        )


def _access(user: dict[str, Any], path: str) -> dict[str, Any]:
    """The spec of a SubjectAccessReview."""
    asked = {
        "user": user.get("username") or "",
        "uid": user.get("uid") or "",
        "groups": user.get("groups") or [],
        "extra": user.get("extra") or {},
    }
    return asked | {"nonResourceAttributes": {"path": path, "verb": "post"}}
