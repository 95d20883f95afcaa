"""karpenter.sh/v1 NodeClaim (NC-01..NC-04)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from shared.api.crd.model import ApiModel, Rule
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.requirements import V1Requirement
from shared.api.schema.scalars import Duration, DurationOrNever
from shared.api.schema.taints import V1Taint, check_unique
from shared.api.schema.v1.node_pool import MOST_REQUIREMENTS, MOST_TAINTS, NodeClassRef, Resources


class ResourceRequests(ApiModel):
    """What the machine must have room for."""

    requests: Resources = {}
    """Sum of what the pods planned for it, and its daemons, ask for."""


class NodeClaimSpec(ApiModel):
    """One machine, as it was decided to be."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("spec cannot change: delete the machine, another will come", "self == oldSelf"),
        Rule("each pair of key and effect may be there once", check=check_unique),
    )

    requirements: Annotated[list[V1Requirement], Field(max_length=MOST_REQUIREMENTS)]
    """What labels of the machine must, or must not, be; instance types are listed by price."""
    resources: ResourceRequests = ResourceRequests()
    """What the machine must have room for."""
    taints: Annotated[list[V1Taint], Field(max_length=MOST_TAINTS)] = []
    """Taints of the node."""
    startup_taints: Annotated[list[V1Taint], Field(max_length=MOST_TAINTS)] = []
    """Taints that another agent removes once the node is set up."""
    node_class_ref: NodeClassRef
    """Which object says how the cloud builds the machine."""
    expire_after: DurationOrNever = "720h"
    """Age at which the machine is removed, such as 720h; Never keeps it."""
    termination_grace_period: Duration | None = None
    """How long the node may drain before its remaining pods are deleted; without it a drain may wait for ever."""


class NodeClaimStatus(ApiModel):
    """What became of the machine."""

    node_name: str | None = None
    """Name of its node, once that joined the cluster."""
    provider_id: str | None = Field(default=None, alias="providerID")
    """Its instance, in the words of the cloud: joins it to its node."""
    image_id: str | None = Field(default=None, alias="imageID")
    """The image that it was started from."""
    capacity: Resources = {}
    """All that it has."""
    allocatable: Resources = {}
    """What pods and daemons may use of that."""
    last_pod_event_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When a pod last came or went."""
    conditions: list[StatusCondition] = []
    """Launched, Registered, Initialized, Ready (all three), and what happens on the way out."""


class NodeClaim(Resource):
    """One machine that was asked for, from its order to its end."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="karpenter.sh",
        version="v1",
        kind="NodeClaim",
        plural="nodeclaims",
        columns=(
            Column("Type", r".metadata.labels.node\.kubernetes\.io/instance-type"),
            Column("Capacity", r".metadata.labels.karpenter\.sh/capacity-type"),
            Column("Zone", r".metadata.labels.topology\.kubernetes\.io/zone"),
            Column("Node", ".status.nodeName"),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Age", ".metadata.creationTimestamp", "date"),
            Column("ImageID", ".status.imageID", wide=True),
            Column("ID", ".status.providerID", wide=True),
            Column("NodePool", r".metadata.labels.karpenter\.sh/nodepool", wide=True),
            Column("NodeClass", ".spec.nodeClassRef.name", wide=True),
            Column("Drifted", '.status.conditions[?(@.type=="Drifted")].status', wide=True),
        ),
    )

    spec: NodeClaimSpec
    """One machine, as it was decided to be."""
    status: NodeClaimStatus = NodeClaimStatus()
    """What became of the machine."""
