"""Settings of the emulator process, read from the environment, and those that may change while it runs.

An invalid value stops the process before it listens; pydantic's message names the variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import AliasGenerator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class EmulatorSettings(BaseSettings):
    """One field per environment variable, which has the field's name in upper case or its ``validation_alias``."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        alias_generator=AliasGenerator(validation_alias=str.upper),
    )

    host: str = Field(
        default="127.0.0.1", validation_alias="AWS_EMULATOR_HOST", description="bind address"
    )
    port: int = Field(
        default=0,
        ge=0,
        le=65535,
        validation_alias="AWS_EMULATOR_PORT",
        description="0 chooses a free port",
    )
    url_file: Path | None = Field(
        default=None,
        validation_alias="AWS_EMULATOR_URL_FILE",
        description="file that receives the URL once the emulator answers",
    )
    region: str = Field(
        default="us-west-2", validation_alias="AWS_REGION", description="the one AWS region"
    )
    cluster_name: str = Field(
        default="dovetail-local",
        min_length=1,
        max_length=80,
        description="names the EKS cluster, the queue and the discovery tag",
    )
    kubernetes_version: str = Field(
        default="1.32",
        pattern=r"^1\.\d\d$",
        validation_alias="AWS_EMULATOR_KUBERNETES_VERSION",
        description="version of the EKS cluster",
    )
    preview_types: str = Field(
        default="",
        max_length=10_000,
        validation_alias="AWS_EMULATOR_PREVIEW_TYPES",
        description="instance types that no price list names, with commas, as before their release",
    )
    seed: bool = Field(
        default=True,
        validation_alias="AWS_EMULATOR_SEED",
        description="create network, profile, queue, rules and cluster at start and on reset",
    )
    instance_pending_seconds: float = Field(
        default=1.0, ge=0, le=3600, description="seconds an instance stays pending"
    )
    instance_shutting_down_seconds: float = Field(
        default=1.0,
        ge=0,
        le=3600,
        description="seconds an instance stays shutting-down or stopping",
    )
    interruption_notice_seconds: float = Field(
        default=120.0, ge=0, le=3600, description="seconds from a spot warning to the termination"
    )
    terminated_visible_seconds: float = Field(
        default=3600.0,
        ge=0,
        le=86400,
        description="seconds a terminated instance stays in DescribeInstances",
    )
    describe_lag_seconds: float = Field(
        default=0.0,
        ge=0,
        le=600,
        description="seconds before a change of an instance shows in describe calls",
    )
    describe_lag_seed: int | None = Field(
        default=None,
        description="seed of each instance's lag, up to DESCRIBE_LAG_SECONDS; unset: every lag is full",
    )
    log_level: str = Field(
        default="info",
        pattern="^(debug|info|warning|error)$",
        description="lowest level that is logged",
    )


@dataclass(slots=True)
class Behaviour:
    """The timings in seconds that ``POST /_dovetail/settings`` may change."""

    instance_pending_seconds: float
    instance_shutting_down_seconds: float
    interruption_notice_seconds: float
    terminated_visible_seconds: float
    describe_lag_seconds: float
    describe_lag_seed: int | None
    """None: every instance lags by the full time; otherwise by a share drawn from this seed."""
    tag_lag_seconds: float = 0.0
    """How much longer than the instance itself its first tags lag."""
    template_lag_seconds: float = 0.0
    """From the creation of a launch template until any call knows it."""

    @classmethod
    def from_settings(cls, settings: EmulatorSettings) -> Behaviour:
        """The timings of the environment."""
        return cls(**settings.model_dump(include=set(cls.__slots__)))


def describe_settings() -> str:
    """The text of ``--help``: every variable, its default and its meaning."""
    lines = ["usage: python -m local.aws", "", "Settings are environment variables:"]
    for field in EmulatorSettings.model_fields.values():
        default = "unset" if field.default is None else field.default
        lines.append(f"  {field.validation_alias!s:<34}{field.description} (default {default})")
    return "\n".join(lines)
