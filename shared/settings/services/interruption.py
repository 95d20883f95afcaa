"""Settings of the interruption service: events, polls, notifications."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.settings.lifecycle_hooks import LifecycleHookSettings
from shared.settings.services.base import AwsSettings
from shared.settings.shortages import ShortageSettings
from shared.settings.types import Duration, Rate, WebhookTemplate


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
