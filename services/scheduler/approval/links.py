"""Signed links by which somebody answers for one command: HMAC-SHA256 over id, answer and end. Pure.

Whoever has a link may answer as it says until it ends. A link approves nothing by itself: it opens a page, whose button
sends the answer.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

APPROVE, REJECT = "approve", "reject"
EXPIRES, SIGNATURE = "expires", "signature"
WRONG = "the link is not valid: its signature does not fit; take the one that was sent"
OVER = "the link has ended; `dovetail approvals` lists what waits"


@dataclass(frozen=True)
class Links:
    """``base``: the address at which people reach the scheduler's status port; ``key``: the secret."""

    base: str
    key: str
    cluster: str

    def to(self, id_: str, answer: str, expires_at: float) -> str:
        """``answer``: APPROVE or REJECT; ``expires_at``: seconds since the epoch."""
        expires = int(expires_at)
        query = {EXPIRES: expires, SIGNATURE: self._signature(id_, answer, str(expires))}
        return (
            f"{self.base.rstrip('/')}/approvals/{quote(id_, safe='')}/{answer}?{urlencode(query)}"
        )

    def refusal(self, id_: str, answer: str, query: Mapping[str, str], *, now: float) -> str:
        """Why this link does not count; empty: it does."""
        expires, given = query.get(EXPIRES, ""), query.get(SIGNATURE, "")
        expected = self._signature(id_, answer, expires)
        if not hmac.compare_digest(expected.encode(), given.encode()):
            return WRONG
        return "" if now < int(expires) else OVER

    def _signature(self, id_: str, answer: str, expires: str) -> str:
        signed = "\n".join(("dovetail approval", self.cluster, id_, answer, expires))
        return hmac.new(self.key.encode(), signed.encode(), hashlib.sha256).hexdigest()
