"""Client tokens of mutating calls: the same token and request give the same answer (EC2's ClientToken).

Other parameters with a known token are ``IdempotentParameterMismatch``. A token whose instances have all terminated is
``IdempotentInstanceTerminated``, as EC2 answers since January 2025. Tokens are kept for the life of the process, at
most ``TOKEN_LIMIT`` of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from local.aws.ec2.instances import TERMINATION_STATES
from local.aws.ec2.refusal import RequestRefused

TOKEN_LIMIT = 100_000
TOKEN_LENGTH_LIMIT = 64


def digest(parameters: Mapping[str, Any]) -> str:
    """A fingerprint of the request without its token."""
    relevant = {key: value for key, value in parameters.items() if key != "ClientToken"}
    text = json.dumps(relevant, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Use:
    fingerprint: str
    answer: Any
    instance_ids: tuple[str, ...]


class Tokens:
    """Answers by (action, region, token)."""

    def __init__(self, state_of: Callable[[str], str | None]) -> None:
        """``state_of`` returns the state of an instance id, None when the instance was deleted."""
        self._state_of = state_of
        self._uses: dict[tuple[str, str, str], _Use] = {}

    def earlier_answer(
        self, key: tuple[str, str, str], parameters: Mapping[str, Any]
    ) -> Any | None:
        """The first answer for this token, or None for a new token. Raises RequestRefused."""
        if len(key[2]) > TOKEN_LENGTH_LIMIT:
            raise RequestRefused(
                "InvalidParameterValue",
                f"ClientToken may have at most {TOKEN_LENGTH_LIMIT} ASCII characters",
            )
        use = self._uses.get(key)
        if use is None:
            return None
        if use.fingerprint != digest(parameters):
            raise RequestRefused(
                "IdempotentParameterMismatch",
                "The client token you have provided is associated with a request with "
                "different parameters. Use a new token for a new request.",
            )
        if use.instance_ids and all(self._ended(instance_id) for instance_id in use.instance_ids):
            raise RequestRefused(
                "IdempotentInstanceTerminated",
                "The instances launched with this client token are terminated. "
                "Use a new token for a new request.",
            )
        return use.answer

    def remember(
        self,
        key: tuple[str, str, str],
        parameters: Mapping[str, Any],
        answer: Any,
        instance_ids: tuple[str, ...],
    ) -> None:
        """Keep the first answer; the oldest token is dropped when the store is full."""
        while len(self._uses) >= TOKEN_LIMIT:
            del self._uses[next(iter(self._uses))]
        self._uses[key] = _Use(digest(parameters), answer, instance_ids)

    def clear(self) -> None:
        """Delete every token."""
        self._uses.clear()

    def _ended(self, instance_id: str) -> bool:
        state = self._state_of(instance_id)
        return state is None or state in TERMINATION_STATES
