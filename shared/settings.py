"""Settings of every service, from environment variables alone, read once at start.

``python -m services.<name> --help`` prints them. A wrong value stops the start with a message that names the variable.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import ConfigurationError

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: object) -> object:
    """Seconds of a Go duration such as ``1s``, ``250ms`` or ``1m30s``; plain numbers are seconds.

    Anything else is handed back for pydantic to refuse with the field's name.
    """
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return sum(float(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(value))
    return value


Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0, le=30 * 24 * 3600)]


class ServiceSettings(BaseSettings):
    """What every service needs."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    cluster_name: str = Field(
        min_length=1,
        max_length=100,
        description="Name of the cluster; tags and stream names use it.",
    )
    redis_url: str = Field(
        "redis://127.0.0.1:6379/0", description="Redis 6.2 or newer (7.0 advised)."
    )
    kubeconfig: str = Field(
        "", description="Path of a kubeconfig; empty: the service account inside a pod."
    )
    status_host: str = Field("127.0.0.1", description="Address of the status server.")
    status_port: int = Field(8080, ge=0, le=65535, description="Port of the status server.")
    api_docs: bool = Field(False, description="Serve the OpenAPI page at /docs.")
    log_level: str = Field(
        "info",
        pattern="(?i)^(debug|info|warning|error)$",
        description="debug, info, warning or error.",
    )
    connect_timeout: Duration = Field(
        60.0,
        description="How long a start waits for Redis, the API server and AWS before it gives up.",
    )
    message_min_idle: Duration = Field(
        60.0,
        description="A message that its consumer has not touched this long goes to another "
        "consumer; at least 10s.",
    )
    resync_seconds: Duration = Field(
        15.0, description="How often a service lists its own work again, whatever the streams say."
    )


class AwsSettings(ServiceSettings):
    """For services that call AWS."""

    aws_region: str = Field(
        min_length=1, description="Region of the cluster, for example us-west-2."
    )
    aws_endpoint_url: str | None = Field(
        None, description="Another AWS endpoint, for the local stack."
    )


class WatcherSettings(ServiceSettings):
    """The watcher needs nothing more."""


class SchedulerSettings(ServiceSettings):
    """Batching and planning."""

    batch_idle_duration: Duration = Field(
        1.0, description="A batch closes after this long without a new pod (BAT-02)."
    )
    batch_max_duration: Duration = Field(
        10.0, description="A batch never stays open longer (BAT-02)."
    )
    nomination_minimum: Duration = Field(
        10.0, description="A node that a plan chose for pods is not empty this long (BAT-11)."
    )
    preference_policy: str = Field("Respect", pattern="^(Respect|Ignore)$")
    mirror_max_age: Duration = Field(
        60.0, description="With an older picture of the cluster nothing is planned or deleted."
    )


class LauncherSettings(AwsSettings):
    """Building instances."""

    cluster_endpoint: str = Field(
        "", description="URL of the Kubernetes API for nodes; empty: eks:DescribeCluster."
    )
    cluster_ca_bundle: str = Field("", description="Base64 CA bundle for nodes.")
    default_instance_profile: str = Field(
        "", description="Instance profile when the node template names none (T-05)."
    )
    vm_memory_overhead_percent: float = Field(0.075, ge=0, lt=1)
    reserved_enis: int = Field(0, ge=0)
    unavailable_seconds: Duration = Field(
        180.0, description="How long an offering without capacity is not asked for again (LCH-61)."
    )
    launch_timeout: Duration = Field(300.0, description="LCH-76")
    registration_timeout: Duration = Field(900.0, description="LCH-76")
    garbage_period: Duration = Field(
        30.0, description="How often instances without a Machine are looked for (LCH-81)."
    )
    garbage_grace: Duration = Field(
        60.0, description="An instance must be without a Machine this long, seen twice (R7)."
    )


class TerminatorSettings(AwsSettings):
    """Draining and terminating."""

    drain_minimum: Duration = Field(5.0, description="A drain lasts at least this long (TRM-05).")
    poll_seconds: Duration = Field(1.0, description="How often a drain looks again (TRM-05).")


class InterruptionSettings(AwsSettings):
    """Interruption notices."""

    interruption_queue: str = Field(
        "", description="SQS queue that EventBridge fills; empty: the service idles (INT-01)."
    )
    unavailable_seconds: Duration = Field(180.0, description="LCH-61")
    receive_wait_seconds: int = Field(20, ge=0, le=20, description="SQS long poll (INT-03).")


Settings = TypeVar("Settings", bound=BaseSettings)


def read(kind: type[Settings], **overrides: Any) -> Settings:
    """The settings of one service. Raises ConfigurationError that names every wrong variable."""
    try:
        return kind(**overrides)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}"
            for fault in error.errors()
        )
        raise ConfigurationError(
            f"wrong settings: {faults}. See --help for all variables"
        ) from error


def describe(kind: type[BaseSettings]) -> str:
    """One line per variable: name, default, meaning."""
    lines = []
    for name, field in kind.model_fields.items():
        default = "required" if field.is_required() else f"default {field.default!r}"
        lines.append(f"  {name.upper():28} {default}. {field.description or ''}".rstrip())
    return "\n".join(lines)
