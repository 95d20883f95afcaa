"""Settings of every service, as pydantic models: name, type, default, meaning.

docs/operating/settings.md explains them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.settings.approvals import ApprovalSettings
from shared.settings.devices import DeviceSettings
from shared.settings.lifecycle_hooks import LifecycleHookSettings
from shared.settings.node_classes import NodeClassSettings
from shared.settings.observability import ClusterMetricsSettings
from shared.settings.records import RecordSettings
from shared.settings.scale_down import ScaleDownSettings
from shared.settings.shortages import ShortageSettings
from shared.settings.types import (
    CountTerminating,
    Duration,
    Gates,
    Rate,
    SecretKey,
    Tags,
    WebhookTemplate,
)


class ServiceSettings(BaseSettings):
    """Settings that every service has."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)

    cluster_name: str = Field(
        min_length=1,
        max_length=100,
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

    aws_region: str = Field(
        min_length=1, description="Region of the cluster, for example us-west-2."
    )
    aws_endpoint_url: str | None = Field(
        None, description="Another AWS endpoint, for the local stack."
    )
    assume_role_arn: str = Field(
        "", description="Role to assume for calls to AWS; empty: the credentials are used directly."
    )
    assume_role_duration: Duration = Field(
        900.0, ge=900, le=43_200, description="Duration of one session of that role."
    )


class WatcherSettings(DeviceSettings, ServiceSettings, ClusterMetricsSettings):
    """Settings of the watcher."""

    watch_check_period: Duration = Field(
        300.0,
        ge=1,
        description="How often the mirror of the cluster is compared with new lists (metadata only).",
    )


class SchedulerSettings(
    DeviceSettings,
    RecordSettings,
    ApprovalSettings,
    ServiceSettings,
    ClusterMetricsSettings,
    ScaleDownSettings,
    ShortageSettings,
):
    """Settings of the scheduler: batching, planning, disruption."""

    limits_count_terminating: CountTerminating = True
    batch_idle_duration: Duration = Field(
        1.0, description="A batch closes after this long without a new pod."
    )
    batch_max_duration: Duration = Field(
        10.0, description="Maximum time for which a batch stays open."
    )
    nomination_minimum: Duration = Field(
        10.0, description="How long a node that a plan selected for pods does not count as empty."
    )
    preference_policy: str = Field(
        "Respect",
        pattern="^(Respect|Ignore)$",
        description="Respect or Ignore the preferences of pods.",
    )
    min_values_policy: str = Field(
        "Strict",
        pattern="^(Strict|BestEffort)$",
        description="Strict: no machine below a pool's minValues; BestEffort: minValues may be relaxed.",
    )
    scheduler_config: str = Field(
        "",
        description="kube-scheduler's configuration, or its path; its default spread constraints apply.",
    )
    nominate: str = Field(
        "auto",
        pattern="^(auto|on|off)$",
        description="Set status.nominatedNodeName of pods to the planned node: on, off; auto: from Kubernetes 1.35 on, "
        "where kube-scheduler uses it.",
    )
    packing_policy: str = Field(
        "FewestNodes",
        pattern="^(FewestNodes|LowestCost|Balanced)$",
        description="FewestNodes, Balanced or LowestCost, for pools without the annotation dovetail.sh/packing.",
    )
    node_price: float | None = Field(
        None,
        ge=0,
        lt=1000,
        allow_inf_nan=False,
        description="What LowestCost and Balanced count for one more node beside its price, in US dollars per hour; "
        "unset: 0, with Balanced its own default. The annotation dovetail.sh/node-price of a pool has precedence.",
    )
    packing_effort: int = Field(
        200,
        ge=0,
        le=10_000,
        description="Search effort of LowestCost per plan; each unit takes about 4 ms of CPU where it is used up.",
    )
    packing_most_cpu: int = Field(
        0, ge=0, description="Largest node that LowestCost plans, in vCPU; 0: any size."
    )
    policy_price_period: Duration = Field(
        0.0,
        description="How often the price of all pods by each packing policy is computed, beside the work; 0: never.",
    )
    pod_hint_period: Duration = Field(
        0.0, description="How often one waiting pod gets an event with a change; 0: never."
    )
    disruption: str = Field(
        "on",
        pattern="^(on|off)$",
        description="off stops all voluntary disruption (kill switch); interruptions are still handled.",
    )
    disruption_period: Duration = Field(
        10.0,
        description="How often the scheduler searches for machines to disrupt while there are none.",
    )
    validation_delay: Duration = Field(
        15.0, description="Delay after which a consolidation is validated again before it starts."
    )
    consolidation: str = Field(
        "auto",
        pattern="^(Karpenter|Global|auto)$",
        description="For pools that do not say. auto: Global where LowestCost or Balanced packs.",
    )
    consolidation_move_cost: float = Field(
        0.005,
        ge=0,
        le=1000,
        description="Cost that Global assumes for moving one pod, in US dollars.",
    )
    consolidation_payback: Duration = Field(
        3600.0, ge=1, description="Time within which a move of Global must save its cost."
    )
    consolidation_rest: Duration = Field(
        600.0,
        description="Time after its initialization for which Global does not consolidate a machine.",
    )
    mirror_max_age: Duration = Field(
        60.0,
        description="Maximum age of the mirror; with an older one nothing is planned or deleted.",
    )


class LauncherSettings(AwsSettings, NodeClassSettings, ShortageSettings):
    """Settings of the launcher."""

    limits_count_terminating: CountTerminating = True
    cluster_endpoint: str = Field(
        "", description="URL of the Kubernetes API for nodes; empty: eks:DescribeCluster."
    )
    cluster_ca_bundle: str = Field("", description="Base64 CA bundle for nodes.")
    default_instance_profile: str = Field(
        "", description="Instance profile for node classes without one."
    )
    vm_memory_overhead_percent: float = Field(
        0.075, ge=0, lt=1, description="Fraction of the memory that the hypervisor uses."
    )
    reserved_enis: int = Field(
        0, ge=0, description="Network interfaces of a node that are not used for pods."
    )
    enable_pod_eni: bool = Field(True, description="Types offer vpc.amazonaws.com/pod-eni to pods.")
    enable_eni_limited_pod_density: bool = Field(
        True, description="Limit pods of a node by its network interfaces; false: 110 pods."
    )
    isolated_vpc: bool = Field(
        False, description="The VPC cannot reach the price and IAM APIs: use the bundled prices."
    )
    aws_tags: Tags = Field({}, description="JSON object of tags for all resources created in AWS.")
    enable_zonal_shift: bool = Field(
        False,
        description="Launch nothing in zones with an active zonal shift; instances there stay.",
    )
    disable_dry_run: bool = Field(
        False, description="Do not check with dry runs whether a node class can be launched."
    )
    unavailable_seconds: Duration = Field(
        180.0, description="How long an offering without capacity is not requested again."
    )
    create_fleet_per_second: Rate = Field(
        10.0,
        le=1000,
        description="Maximum number of CreateFleet calls per second; reduced automatically when EC2 throttles.",
    )
    launches_per_minute: int = Field(
        0,
        ge=0,
        description="Safety limit: maximum number of instances launched per minute; 0: none.",
    )
    max_nodes: int = Field(
        0, ge=0, description="Safety limit: maximum number of instances of all pools; 0: none."
    )
    launch_timeout: Duration = Field(
        300.0, description="Time after which a machine without an instance is deleted."
    )
    registration_timeout: Duration = Field(
        900.0, description="Time after which a machine whose node has not joined is deleted."
    )
    garbage_period: Duration = Field(
        120.0,
        description="How often garbage collection searches for orphaned instances and machines; every 10s for the "
        "first 20 rounds.",
    )
    garbage_grace: Duration = Field(
        60.0,
        description="How long an instance must be without a machine, in two searches, before it is terminated.",
    )


class TerminatorSettings(AwsSettings):
    """Settings of the terminator: drains and termination."""

    drain_minimum: Duration = Field(5.0, description="Minimum duration of a drain.")
    poll_seconds: Duration = Field(1.0, description="How often the state of a drain is checked.")
    self_managed_nodes: bool = Field(
        True, description="Drain nodes without a pool when a lifecycle hook waits for it."
    )
    enable_out_of_service_taint: bool = Field(
        False, description="Taint such nodes as out of service when they are drained."
    )
    kube_client_qps: Rate = Field(
        500,
        description="Requests per second to the API server, on average; enough for hundreds of drains at once.",
    )
    kube_client_burst: int = Field(500, ge=1, description="Burst of requests to the API server.")


class InterruptionSettings(AwsSettings, LifecycleHookSettings, ShortageSettings):
    """Settings of the interruption service."""

    interruption_queue: str = Field(
        "", description="SQS queue of the EventBridge rules; empty: the service is idle."
    )
    unavailable_seconds: Duration = Field(
        180.0, description="How long an interrupted spot offering is not requested again."
    )
    delete_sqs_msg_if_node_not_found: bool = Field(
        True, description="Delete messages about unknown instances; false: leave them for others."
    )
    receive_wait_seconds: int = Field(20, ge=0, le=20, description="SQS long poll.")
    instance_status_period: Duration = Field(
        60.0, description="How often EC2's status checks are read; 0: never."
    )
    interruption_mode: Literal["delete", "cordon", "dry-run"] = Field(
        "delete", description="For pools without the annotation dovetail.sh/interruption."
    )
    rebalance: Literal["off", "cordon", "drain"] = Field(
        "off", description="For pools without the annotation dovetail.sh/rebalance."
    )
    maintenance_lead: Duration = Field(
        720 * 3600.0,
        description="How long before its start a scheduled event is handled, for pools without the annotation "
        "dovetail.sh/maintenance-lead; 720h: as soon as it is announced.",
    )
    webhook_url: str = Field(
        "",
        pattern="^(https?://[^ ]+)?$",
        description="URL for POST notifications about handled interruptions; empty: none.",
    )
    webhook_template: WebhookTemplate = Field(
        '{"text": "$cluster: $reason, $action: $machines"}',
        description="JSON body of a notification, with the variables $cluster, $kind, $reason, $action, $count, "
        "$machines, $nodes, $instances, $types, $zones, $pools and $time.",
    )
    self_managed_nodes: bool = Field(
        True,
        description="Handle nodes without a pool: lifecycle hooks (see LIFECYCLE_HOOKS) and --source imds.",
    )
    imds_endpoint: str = Field(
        "http://169.254.169.254", description="Instance metadata service, for --source imds."
    )
    imds_period: Duration = Field(
        2.0,
        ge=0.1,
        le=60,
        description="How often the instance metadata are read, for --source imds.",
    )
    node_name: str = Field(
        "", description="Name of the node, for --source imds; empty: the instance's host name."
    )
    kube_client_qps: Rate = Field(
        500,
        description="Requests per second to the API server, on average; enough for 15,000 notices per minute.",
    )
    kube_client_burst: int = Field(500, ge=1, description="Burst of requests to the API server.")
