"""Settings of one service where several share a process: environment variables with the service's name as prefix.

``LAUNCHER_REDIS_URL`` takes precedence over ``REDIS_URL`` in the launcher. Only settings of a service's identity have
such variables: its Redis user, its ServiceAccount, its AWS access key. An incomplete key raises ConfigurationError.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.errors import ConfigurationError

OWN_FIELDS = ("kubeconfig", "redis_url")
AccessKey = tuple[str, str]
"""Id and secret."""


def own_values(service: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The values of these variables, by field of the service's settings."""
    found = {field: variables.get(f"{service}_{field}".upper(), "") for field in OWN_FIELDS}
    return {field: value for field, value in found.items() if value}


def own_access_key(service: str, variables: Mapping[str, str]) -> AccessKey | None:
    """The service's access key; None for AWS's default credential chain. Raises ConfigurationError."""
    named = [f"{service}_AWS_{part}".upper() for part in ("access_key_id", "secret_access_key")]
    key, secret = (variables.get(name, "") for name in named)
    if bool(key) != bool(secret):
        raise ConfigurationError(f"{' and '.join(named)}: set both or neither")
    return (key, secret) if key else None
