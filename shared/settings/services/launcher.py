"""Settings of the launcher: node classes, launches, garbage collection."""

from __future__ import annotations

from pydantic import Field

from shared.settings.node_classes import NodeClassSettings
from shared.settings.services.base import AwsSettings
from shared.settings.shortages import ShortageSettings
from shared.settings.types import CountTerminating, Duration, Rate, Tags


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
