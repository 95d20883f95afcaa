"""The addresses of an installation, read from the variables of ``.dovetail/env``.

The variables come from the shell or from a running stack. Errors: a variable is missing; the message names the variable
and the two ways to set it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.errors import ConfigurationError

_URL_PREFIX, _URL_SUFFIX = "DOVETAIL_", "_URL"


@dataclass(frozen=True)
class Environment:
    """Addresses of one Dovetail installation. ``services`` maps names to status URLs."""

    kubeconfig: str
    redis_url: str
    aws_endpoint_url: str
    cluster_name: str
    services: dict[str, str]


def from_variables(variables: Mapping[str, str]) -> Environment:
    """Raises ConfigurationError naming every missing variable."""
    needed = ("KUBECONFIG", "REDIS_URL", "AWS_ENDPOINT_URL", "CLUSTER_NAME")
    if missing := [name for name in needed if not variables.get(name)]:
        raise ConfigurationError(
            f"{', '.join(missing)} not set; run `dovetail up --detach` "
            "(or source the .dovetail/env of a running stack)"
        )
    services = {
        name.removeprefix(_URL_PREFIX).removesuffix(_URL_SUFFIX).lower(): url
        for name, url in variables.items()
        if name.startswith(_URL_PREFIX) and name.endswith(_URL_SUFFIX)
    }
    return Environment(
        kubeconfig=variables["KUBECONFIG"],
        redis_url=variables["REDIS_URL"],
        aws_endpoint_url=variables["AWS_ENDPOINT_URL"],
        cluster_name=variables["CLUSTER_NAME"],
        services=services,
    )
