"""The policies of deploy/iam with their placeholders filled as in a deployment, and the access key of each service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from shared.distribution.files import packaged

IAM = packaged("deploy", "iam")
_KEY_PREFIX = "DOVETAIL"
_PLACEHOLDER = re.compile(r"\$\{([a-z_]+)\}")


class Statement(msgspec.Struct, frozen=True):
    """One statement of a policy. ``conditions``: operator -> key -> accepted values."""

    allows: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: dict[str, dict[str, tuple[str, ...]]]


def access_key(service: str) -> str:
    """The access key id with which a service of the local stack signs."""
    return f"{_KEY_PREFIX}{service.upper()}"


def service_of(key: str) -> str | None:
    """The service that signs with this key; None for other keys."""
    return key.removeprefix(_KEY_PREFIX).lower() if key.startswith(_KEY_PREFIX) else None


@cache
def policies_of(service: str) -> tuple[str, ...]:
    """Names of the policies of a service's role; none for a service without AWS calls."""
    roles: dict[str, list[str]] = json.loads((IAM / "roles.json").read_text())
    return tuple(roles.get(service, ()))


def statements(policies: Iterable[str], values: Mapping[str, str]) -> tuple[Statement, ...]:
    """All statements of these policies. Raises KeyError for a placeholder without a value."""
    texts = (_filled((IAM / "policies" / f"{name}.json").read_text(), values) for name in policies)
    return tuple(statement for text in texts for statement in statements_of(text))


def statements_of(text: str) -> tuple[Statement, ...]:
    """The statements of one policy document, which may be a list or a single one."""
    found = json.loads(text)["Statement"]
    return tuple(_statement(raw) for raw in (found if isinstance(found, list) else [found]))


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def _statement(raw: Mapping[str, Any]) -> Statement:
    conditions = {
        operator: {key: _listed(values) for key, values in keys.items()}
        for operator, keys in raw.get("Condition", {}).items()
    }
    allows = raw["Effect"] == "Allow"
    return Statement(allows, _listed(raw["Action"]), _listed(raw["Resource"]), conditions)


def _listed(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
