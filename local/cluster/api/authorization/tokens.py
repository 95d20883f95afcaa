"""Bearer tokens of ServiceAccounts: signed tokens with an expiry (TokenRequest), and fixed tokens from files.

A signed token is a JSON Web Token (HS256), so its claims are readable; its key exists as long as the process. Fixed
tokens are those of the local stack's services: they remain valid after a restart of the cluster, whose ServiceAccounts
then have new uids.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from local.cluster.api.authorization.users import User, service_account
from local.cluster.api.errors import ApiError, bad_request, invalid, invalid_value
from local.cluster.builtin.resources import TOKEN_REQUEST
from local.cluster.storage.store import Store
from shared.concurrency.clock import rfc3339

AUDIENCE = ISSUER = "https://kubernetes.default.svc.cluster.local"
SHORTEST_SECONDS, USUAL_SECONDS, LONGEST_SECONDS = 600, 3_600, 1 << 32
_HEADER = {"alg": "HS256", "typ": "JWT"}


@dataclass(frozen=True)
class Identity:
    """The user of a token, and the servers (audiences) that may accept it."""

    user: User
    audiences: tuple[str, ...]


def unauthorized() -> ApiError:
    """401 for a request without a valid token."""
    return ApiError(401, "Unauthorized", "Unauthorized")


class Tokens:
    """Issues and verifies tokens. ``store`` provides the existing ServiceAccounts and the time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._key = secrets.token_bytes(32)
        self._fixed: dict[str, tuple[str, str]] = {}

    def fix(self, token: str, namespace: str, name: str) -> None:
        """Accept ``token`` for a ServiceAccount from now on, as long as that exists."""
        self._fixed[token] = (namespace, name)

    def issue(
        self, account: dict[str, Any], audiences: Sequence[str], seconds: int
    ) -> tuple[str, float]:
        """A token for a ServiceAccount object, and its expiry (seconds since the epoch)."""
        metadata, now = account["metadata"], int(self._store.clock.now())
        namespace, name = metadata["namespace"], metadata["name"]
        claims = {
            "iss": ISSUER,
            "sub": service_account(namespace, name).name,
            "aud": list(audiences) or [AUDIENCE],
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": metadata["uid"]},
            },
        }
        content = f"{_encoded(_HEADER)}.{_encoded(claims)}"
        return f"{content}.{self._signature(content)}", float(now + seconds)

    def identify(self, token: str) -> Identity | None:
        """The identity of ``token``; None when it is wrong or expired, or its ServiceAccount no longer exists."""
        if token in self._fixed:
            namespace, name = self._fixed[token]
            return self._identity(namespace, name, None, (AUDIENCE,))
        claims = self._claims(token)
        if claims is None or not claims["nbf"] <= self._store.clock.now() < claims["exp"]:
            return None
        bound = claims["kubernetes.io"]
        account = bound["serviceaccount"]
        return self._identity(
            bound["namespace"], account["name"], account["uid"], tuple(claims["aud"])
        )

    def user(self, token: str) -> User:
        """The user of a token for this server. Raises ApiError 401."""
        found = self.identify(token)
        if found is None or AUDIENCE not in found.audiences:
            raise unauthorized()
        return found.user

    def _identity(
        self, namespace: str, name: str, uid: str | None, audiences: tuple[str, ...]
    ) -> Identity | None:
        account = self._store.find("serviceaccounts", name, namespace=namespace)
        if account is None or uid not in (None, account["metadata"]["uid"]):
            return None
        return Identity(service_account(namespace, name, account["metadata"]["uid"]), audiences)

    def _claims(self, token: str) -> dict[str, Any] | None:
        # Only tokens that this process signed are decoded, so their shape needs no check.
        content, _, signature = token.rpartition(".")
        if not token.isascii() or not hmac.compare_digest(signature, self._signature(content)):
            return None
        claims: dict[str, Any] = json.loads(_decoded(content.partition(".")[2]))
        return claims

    def _signature(self, content: str) -> str:
        digest = hmac.new(self._key, content.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def answer_request(tokens: Tokens, account: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The TokenRequest, which ``kubectl create token`` sends, with its token. Raises ApiError 400 and 422."""
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


def _encoded(document: dict[str, Any]) -> str:
    text = json.dumps(document, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))
