"""Settings of every service, as pydantic models: name, kind, default, meaning.

The settings are explained in docs/operating/settings.md.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.settings.types import (
    CountTerminating,
    Duration,
    Gates,
    SecretKey,
    Tags,
    WebhookTemplate,
)


class ServiceSettings(BaseSettings):
    """What every service needs."""

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
        description="Secret of at least 16 characters, the same for all services, by which they know the mirror's "
        "entries; empty: only accidental damage is noticed.",
    )
    kubeconfig: str = Field(
        "", description="Path of a kubeconfig; empty: the service account inside a pod."
    )
    system_namespace: str = Field(
        "karpenter",
        pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        description="Namespace of the ConfigMap karpenter-global-settings.",
    )
    kube_client_qps: float = Field(
        200,
        gt=0,
        allow_inf_nan=False,
        description="Requests per second to the API server, on average.",
    )
    kube_client_burst: int = Field(300, ge=1, description="Requests at once to the API server.")
    feature_gates: Gates = Field(
        "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,"
        "StaticCapacity=false,CapacityBuffer=false,Drift=false",
        validate_default=True,
        description="Gates that are not named keep their defaults.",
    )
    disable_leader_election: bool = Field(False, description="Work without a Lease.")
    leader_election_name: str = Field(
        "karpenter-leader-election",
        min_length=1,
        max_length=200,
        description="Beginning of the Leases' names; each service adds its own.",
    )
    leader_election_namespace: str = Field(
        "", description="Namespace of the Leases; empty: SYSTEM_NAMESPACE."
    )
    status_host: str = Field("127.0.0.1", description="Address of the status server.")
    status_port: int = Field(8080, ge=0, le=65535, description="Port of the status server.")
    probe_host: str = Field("", description="Address of the probes' port; empty: STATUS_HOST.")
    probe_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="A port for /healthz and /readyz alone, which no other client can fill up; 0: none.",
    )
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
    assume_role_arn: str = Field(
        "", description="Role to take on for calls to AWS; empty: the credentials as they are."
    )
    assume_role_duration: Duration = Field(
        900.0, ge=900, le=43_200, description="How long one session of that role lasts."
    )


class WatcherSettings(ServiceSettings):
    """Watching."""

    watch_check_period: Duration = Field(
        300.0,
        ge=1,
        description="How often the picture of the cluster is compared with fresh lists (metadata only).",
    )


class SchedulerSettings(ServiceSettings):
    """Batching and planning."""

    questions: Literal["off", "open", "authenticated"] = Field(
        "off",
        description="Who may POST /simulate and /explain: nobody, everybody who reaches the port, or whom the API "
        "server lets by the token they send.",
    )

    limits_count_terminating: CountTerminating = True
    batch_idle_duration: Duration = Field(
        1.0, description="A batch closes after this long without a new pod."
    )
    batch_max_duration: Duration = Field(10.0, description="A batch never stays open longer.")
    nomination_minimum: Duration = Field(
        10.0, description="A node that a plan chose for pods is not empty this long."
    )
    preference_policy: str = Field(
        "Respect",
        pattern="^(Respect|Ignore)$",
        description="Respect or Ignore what pods prefer but do not require.",
    )
    min_values_policy: str = Field(
        "Strict",
        pattern="^(Strict|BestEffort)$",
        description="Strict: no machine below a pool's minValues; BestEffort: fewer types will do.",
    )
    ignore_dra_requests: bool = Field(
        True, description="Leave pods with resource claims alone; false: plan them too."
    )
    scheduler_config: str = Field(
        "",
        description="kube-scheduler's configuration, or a path to it: its default spread constraints hold.",
    )
    nominate: str = Field(
        "auto",
        pattern="^(auto|on|off)$",
        description="Tell kube-scheduler each pod's planned node (status.nominatedNodeName): on, off; auto: "
        "where it listens, from Kubernetes 1.35 on.",
    )
    packing_policy: str = Field(
        "FewestNodes",
        pattern="^(FewestNodes|LowestCost)$",
        description="FewestNodes or LowestCost, for pools without the annotation dovetail.sh/packing.",
    )
    packing_effort: int = Field(
        200, ge=0, le=10_000, description="Work of LowestCost per plan, in about milliseconds."
    )
    packing_most_cpu: int = Field(
        0, ge=0, description="LowestCost plans no larger nodes, in vCPU; 0: any size."
    )
    disruption: str = Field(
        "on",
        pattern="^(on|off)$",
        description="off: a kill switch for all voluntary disruption; interruptions go on.",
    )
    disruption_period: Duration = Field(
        10.0,
        description="How often machines to disrupt are looked for while there are none.",
    )
    validation_delay: Duration = Field(
        15.0, description="A consolidation must still be right after this long."
    )
    consolidation: str = Field(
        "Karpenter",
        pattern="^(Karpenter|Global)$",
        description="Karpenter or Global, for pools without the annotation dovetail.sh/consolidation.",
    )
    consolidation_move_cost: float = Field(
        0.005, ge=0, le=1000, description="What Global counts for one moved pod, in US dollars."
    )
    consolidation_payback: Duration = Field(
        3600.0, ge=1, description="Within this long a move of Global must save what it costs."
    )
    consolidation_rest: Duration = Field(
        600.0, description="Global leaves a machine alone so long after it was initialized."
    )
    mirror_max_age: Duration = Field(
        60.0, description="With an older picture of the cluster nothing is planned or deleted."
    )


class LauncherSettings(AwsSettings):
    """Building instances."""

    limits_count_terminating: CountTerminating = True
    cluster_endpoint: str = Field(
        "", description="URL of the Kubernetes API for nodes; empty: eks:DescribeCluster."
    )
    cluster_ca_bundle: str = Field("", description="Base64 CA bundle for nodes.")
    default_instance_profile: str = Field(
        "", description="Instance profile when the node template names none."
    )
    vm_memory_overhead_percent: float = Field(
        0.075, ge=0, lt=1, description="Part of the memory that the hypervisor keeps."
    )
    reserved_enis: int = Field(
        0, ge=0, description="Network interfaces of a node that no pod gets."
    )
    enable_pod_eni: bool = Field(True, description="Types offer vpc.amazonaws.com/pod-eni to pods.")
    enable_eni_limited_pod_density: bool = Field(
        True, description="Pods of a node are limited by its network interfaces; false: 110."
    )
    isolated_vpc: bool = Field(
        False, description="No way out to the price and IAM APIs: use the bundled prices."
    )
    aws_tags: Tags = Field(
        {}, description="JSON object of tags for everything that is made in AWS."
    )
    enable_zonal_shift: bool = Field(
        False, description="Buy nothing in a zone shifted away from, let its instances be."
    )
    disable_dry_run: bool = Field(
        False, description="Do not try out with dry runs whether a node class may launch."
    )
    unavailable_seconds: Duration = Field(
        180.0, description="How long an offering without capacity is not asked for again."
    )
    create_fleet_per_second: float = Field(
        10.0,
        gt=0,
        le=1000,
        allow_inf_nan=False,
        description="Most CreateFleet calls per second; when EC2 throttles them they get fewer by themselves.",
    )
    launches_per_minute: int = Field(
        0, ge=0, description="Safety limit: most instances started within a minute; 0: none."
    )
    max_nodes: int = Field(
        0, ge=0, description="Safety limit: most instances of all pools together; 0: none."
    )
    launch_timeout: Duration = Field(
        300.0, description="A machine without an instance is given up after this long."
    )
    registration_timeout: Duration = Field(
        900.0, description="A machine whose node has not joined is given up after this long."
    )
    garbage_period: Duration = Field(
        120.0,
        description="How often lost instances and machines are looked for; every 10s for the first "
        "20 rounds.",
    )
    garbage_grace: Duration = Field(
        60.0, description="An instance must be without a Machine this long, seen twice."
    )


class TerminatorSettings(AwsSettings):
    """Draining and terminating."""

    drain_minimum: Duration = Field(5.0, description="A drain lasts at least this long.")
    poll_seconds: Duration = Field(1.0, description="How often a drain looks again.")
    self_managed_nodes: bool = Field(
        True, description="Drain nodes that no pool owns when a lifecycle hook waits for that."
    )
    kube_client_qps: float = Field(
        500,
        gt=0,
        allow_inf_nan=False,
        description="Requests per second to the API server, on average: hundreds of drains at once.",
    )
    kube_client_burst: int = Field(500, ge=1, description="Requests at once to the API server.")


class InterruptionSettings(AwsSettings):
    """Interruption notices."""

    interruption_queue: str = Field(
        "", description="SQS queue that EventBridge fills; empty: the service idles."
    )
    unavailable_seconds: Duration = Field(
        180.0, description="How long an interrupted spot offering is not asked for again."
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
        description="How long before its start a scheduled event is acted on, for pools without the annotation "
        "dovetail.sh/maintenance-lead; 720h: as soon as it is announced.",
    )
    webhook_url: str = Field(
        "",
        pattern="^(https?://[^ ]+)?$",
        description="Where to POST what was done about interruptions; empty: nowhere.",
    )
    webhook_template: WebhookTemplate = Field(
        '{"text": "$cluster: $reason, $action: $machines"}',
        description="JSON of a post. $cluster, $kind, $reason, $action, $count, $machines, $nodes, $instances, "
        "$types, $zones, $pools and $time are filled in.",
    )
    self_managed_nodes: bool = Field(
        True,
        description="Serve nodes that no pool owns: lifecycle hooks as LIFECYCLE_HOOKS says, and --source imds.",
    )
    lifecycle_hooks: Literal["off", "cordon", "drain"] = Field(
        "off",
        description="Termination lifecycle hooks of auto scaling groups, for nodes that no pool owns.",
    )
    lifecycle_managed_tag: str = Field(
        "aws-node-termination-handler/managed",
        description="Only nodes whose label, auto scaling group or instance carries this key; empty: all nodes.",
    )
    lifecycle_heartbeat: Duration = Field(
        300.0,
        description="How often a hook is kept waiting; at least twice within its heartbeat timeout. 0: never.",
    )
    lifecycle_drain_limit: Duration = Field(
        3600.0,
        description="How long such a node may drain (cordon: its pods may stay); ends before the hook does.",
    )
    imds_endpoint: str = Field(
        "http://169.254.169.254", description="Instance metadata service, for --source imds."
    )
    imds_period: Duration = Field(
        2.0, ge=0.1, le=60, description="How often the metadata are read, for --source imds."
    )
    node_name: str = Field(
        "", description="Name of the node, for --source imds; empty: the instance's host name."
    )
    kube_client_qps: float = Field(
        500,
        gt=0,
        allow_inf_nan=False,
        description="Requests per second to the API server, on average: 15,000 notices are acted on in a minute.",
    )
    kube_client_burst: int = Field(500, ge=1, description="Requests at once to the API server.")
