"""Schema of karpenter.sh/v1alpha5 Machine (M-01..M-04)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from shared.api.crd.model import ApiModel, Rule
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.kubelet import ProvisionerKubelet
from shared.api.schema.requirements import MinValuesRequirement
from shared.api.schema.scalars import Text
from shared.api.schema.taints import UNIQUE_RULE, NodeTaint
from shared.api.schema.v1.node_claim import ResourceRequests
from shared.api.schema.v1.node_pool import MOST_REQUIREMENTS, MOST_TAINTS, Resources
from shared.api.schema.v1alpha5.provisioner import NodeTemplateReference


class MachineSpec(ApiModel):
    """Specification of the node."""

    RULES: ClassVar[tuple[Rule, ...]] = (UNIQUE_RULE,)

    requirements: Annotated[list[MinValuesRequirement], Field(max_length=MOST_REQUIREMENTS)]
    """Requirements on the labels of the node."""
    resources: ResourceRequests = ResourceRequests()
    """Resources that the node must provide."""
    taints: Annotated[list[NodeTaint], Field(max_length=MOST_TAINTS)] = []
    """Taints of the node."""
    startup_taints: Annotated[list[NodeTaint], Field(max_length=MOST_TAINTS)] = []
    """Taints that another agent removes when the node is set up."""
    kubelet: ProvisionerKubelet | None = None
    """Settings of the kubelet."""
    machine_template_ref: NodeTemplateReference | None = None
    """The AWSNodeTemplate of the node."""


class MachineStatus(ApiModel):
    """Observed state of the machine."""

    node_name: Text | None = None
    """Name of the node."""
    provider_id: Text | None = Field(default=None, alias="providerID")
    """The instance: aws:///<zone>/<instance id>. The node with the same spec.providerID belongs to this machine."""
    capacity: Resources = {}
    """Total resources of the node."""
    allocatable: Resources = {}
    """Resources of the node that pods can use."""
    conditions: list[StatusCondition] = []
    """MachineLaunched, MachineRegistered, MachineInitialized, and Ready when all three are true; also MachineEmpty,
    MachineDrifted and MachineExpired."""


class Machine(Resource):
    """A Machine is one node, from the launch request to the termination of its instance."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="karpenter.sh",
        version="v1alpha5",
        kind="Machine",
        plural="machines",
        columns=(
            Column("Type", r".metadata.labels.node\.kubernetes\.io/instance-type"),
            Column("Zone", r".metadata.labels.topology\.kubernetes\.io/zone"),
            Column("Node", ".status.nodeName"),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("Capacity", r".metadata.labels.karpenter\.sh/capacity-type", wide=True),
            Column("Provisioner", r".metadata.labels.karpenter\.sh/provisioner-name", wide=True),
            Column("Template", ".spec.machineTemplateRef.name", wide=True),
        ),
    )

    spec: MachineSpec
    """Specification of the node."""
    status: MachineStatus = MachineStatus()
    """Observed state of the machine."""
