"""Schema of karpenter.sh/v1 NodeClaim (NC-01..NC-04)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from shared.api.crd.model import ApiModel, Rule
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.requirements import V1Requirement
from shared.api.schema.scalars import Duration, DurationOrNever
from shared.api.schema.taints import UNIQUE_RULE, V1Taint
from shared.api.schema.v1.node_pool import MOST_REQUIREMENTS, MOST_TAINTS, NodeClassRef, Resources


class ResourceRequests(ApiModel):
    """Resources that the machine must provide."""

    requests: Resources = {}
    """Sum of the requests of the pods planned for the machine and of its daemon pods."""


class NodeClaimSpec(ApiModel):
    """Specification of one machine; immutable."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "spec is immutable; delete the NodeClaim, and its pods get a new one", "self == oldSelf"
        ),
        UNIQUE_RULE,
    )

    requirements: Annotated[list[V1Requirement], Field(max_length=MOST_REQUIREMENTS)]
    """Requirements on the labels of the machine; instance types are listed in order of price."""
    resources: ResourceRequests = ResourceRequests()
    """Resources that the machine must provide."""
    taints: Annotated[list[V1Taint], Field(max_length=MOST_TAINTS)] = []
    """Taints of the node."""
    startup_taints: Annotated[list[V1Taint], Field(max_length=MOST_TAINTS)] = []
    """Taints that another agent removes when the node is set up."""
    node_class_ref: NodeClassRef
    """The node class: how AWS creates the machine."""
    expire_after: DurationOrNever = "720h"
    """Age at which the machine is removed, such as 720h; Never disables expiration."""
    termination_grace_period: Duration | None = None
    """How long the node may drain before its remaining pods are deleted; without it a drain has no time limit."""


class NodeClaimStatus(ApiModel):
    """Observed state of the machine."""

    node_name: str | None = None
    """Name of its node; set when the node has joined the cluster."""
    provider_id: str | None = Field(default=None, alias="providerID")
    """The instance: aws:///<zone>/<instance id>. The node with the same spec.providerID belongs to this machine."""
    image_id: str | None = Field(default=None, alias="imageID")
    """Id of the image that the instance was started from."""
    capacity: Resources = {}
    """Total resources of the node."""
    allocatable: Resources = {}
    """Resources of the node that pods can use."""
    last_pod_event_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When a pod was last bound to the node, or last left it."""
    conditions: list[StatusCondition] = []
    """Launched, Registered, Initialized, Ready (when all three are true), and conditions of disruption and
    termination."""


class NodeClaim(Resource):
    """A NodeClaim is one machine, from the launch request to the termination of its instance."""

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
    """Specification of one machine; immutable."""
    status: NodeClaimStatus = NodeClaimStatus()
    """Observed state of the machine."""
