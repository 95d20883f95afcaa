"""Settings that every service has, and those of services that call AWS."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from shared.settings.types import Duration, Gates, Rate, Region, SecretKey


class Environment(EnvSettingsSource):
    """The variables of the environment. The library works out the type of each field, also of those without a variable:
    that takes longer than all else of reading the settings.
    """

    def prepare_field_value(
        self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool
    ) -> Any:
        if value is None:
            return None
        return super().prepare_field_value(field_name, field, value, value_is_complex)


class ServiceSettings(BaseSettings):
    """Settings that every service has."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """There are no files with settings."""
        return init_settings, Environment(settings_cls)

    cluster_name: str = Field(
        min_length=1,
        max_length=100,
        pattern=r"^[^{}:*?\[\]\\\s]+$",
        description="Name of the cluster; tags and stream names use it.",
    )
    redis_url: str = Field(
        "redis://127.0.0.1:6379/0", description="Redis 6.2 or newer (7.0 advised)."
    )
    mirror_key: SecretKey = Field(
        "",
        repr=False,
        description="Secret of at least 16 characters, the same for all services, that authenticates the mirror's "
        "entries; empty: only accidental damage is detected.",
    )
    kubeconfig: str = Field(
        "", description="Path of a kubeconfig; empty: the service account of the pod."
    )
    system_namespace: str = Field(
        "karpenter",
        pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        description="Namespace of the ConfigMap karpenter-global-settings.",
    )
    kube_client_qps: Rate = Field(
        200, description="Requests per second to the API server, on average."
    )
    kube_client_burst: int = Field(300, ge=1, description="Burst of requests to the API server.")
    feature_gates: Gates = Field(
        "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,"
        "StaticCapacity=false,CapacityBuffer=false,ProvisioningRequest=false,Drift=false",
        validate_default=True,
        description="Gates that are not named keep their defaults.",
    )
    disable_leader_election: bool = Field(
        False, description="Disable leader election; the service works without a Lease."
    )
    leader_election_name: str = Field(
        "karpenter-leader-election",
        min_length=1,
        max_length=200,
        description="Prefix of the Leases' names; each service appends its own name.",
    )
    leader_election_namespace: str = Field(
        "", description="Namespace of the Leases; empty: SYSTEM_NAMESPACE."
    )
    karpenter_lease: str = Field(
        "",
        pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        max_length=300,
        description="Lease of a Karpenter that is installed too, as namespace/name: the services act only while they, "
        "not Karpenter, hold it. Empty: there is no Karpenter.",
    )
    status_host: str = Field("127.0.0.1", description="Address of the status server.")
    status_port: int = Field(8080, ge=0, le=65535, description="Port of the status server.")
    probe_host: str = Field("", description="Address of the probes' port; empty: STATUS_HOST.")
    probe_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Separate port for /healthz and /readyz, whose connections other clients cannot use up; 0: none.",
    )
    api_docs: bool = Field(False, description="Serve the OpenAPI page at /docs.")
    profiling: bool = Field(
        False,
        description="Serve /debug/profile, which samples the process: by token where questions need one.",
    )
    log_level: str = Field(
        "info",
        pattern="(?i)^(debug|info|warning|error)$",
        description="debug, info, warning or error.",
    )
    otel_exporter_otlp_endpoint: str = Field(
        "",
        pattern="^(https?://[^ ]+)?$",
        description="Base URL of an OpenTelemetry collector for traces by OTLP over HTTP, for example "
        "http://collector:4318; empty: no traces.",
    )
    connect_timeout: Duration = Field(
        60.0,
        description="How long the start waits for Redis, the API server and AWS before the process exits.",
    )
    message_min_idle: Duration = Field(
        60.0,
        description="Idle time after which a message is delivered to another consumer; at least 10s.",
    )
    resync_seconds: Duration = Field(
        15.0,
        description="How often a service lists its own work again, independently of the streams.",
    )


class AwsSettings(ServiceSettings):
    """Settings of services that call AWS."""

    aws_region: Region = Field(description="Region of the cluster, for example us-west-2.")
    aws_endpoint_url: str | None = Field(
        None, description="Another AWS endpoint, for the local stack."
    )
    assume_role_arn: str = Field(
        "", description="Role to assume for calls to AWS; empty: the credentials are used directly."
    )
    assume_role_duration: Duration = Field(
        900.0, ge=900, le=43_200, description="Duration of one session of that role."
    )
