"""What one service is told by itself where several share a process: variables with its name before them.

``LAUNCHER_REDIS_URL`` counts for the launcher, before ``REDIS_URL``. Only for who a service is: its user in Redis, its
ServiceAccount, its key in AWS. What may go wrong: half a key (ConfigurationError).
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.errors import ConfigurationError

OWN_FIELDS = ("kubeconfig", "redis_url")
AccessKey = tuple[str, str]
"""Id and secret."""


def own_values(service: str, variables: Mapping[str, str]) -> dict[str, str]:
    """By field of its settings."""
    found = {field: variables.get(f"{service}_{field}".upper(), "") for field in OWN_FIELDS}
    return {field: value for field, value in found.items() if value}


def own_access_key(service: str, variables: Mapping[str, str]) -> AccessKey | None:
    """None: AWS's usual search for credentials. Raises ConfigurationError."""
    named = [f"{service}_AWS_{part}".upper() for part in ("access_key_id", "secret_access_key")]
    key, secret = (variables.get(name, "") for name in named)
    if bool(key) != bool(secret):
        raise ConfigurationError(f"{' and '.join(named)}: set both or none")
    return (key, secret) if key else None
