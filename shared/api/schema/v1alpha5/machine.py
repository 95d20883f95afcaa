"""karpenter.sh/v1alpha5 Machine: our record of one node-to-be, as the API server stores it (M-01..M-04)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from shared.api.crd.model import ApiModel, Rule
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.kubelet import ProvisionerKubelet
from shared.api.schema.requirements import MinValuesRequirement
from shared.api.schema.scalars import Text
from shared.api.schema.taints import NodeTaint, check_unique
from shared.api.schema.v1.node_claim import ResourceRequests
from shared.api.schema.v1.node_pool import MOST_REQUIREMENTS, MOST_TAINTS, Resources
from shared.api.schema.v1alpha5.provisioner import NodeTemplateReference


class MachineSpec(ApiModel):
    """The node that is asked for."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("each pair of key and effect may be there once", check=check_unique),
    )

    requirements: Annotated[list[MinValuesRequirement], Field(max_length=MOST_REQUIREMENTS)]
    """What the node must be like."""
    resources: ResourceRequests = ResourceRequests()
    """What the node must offer."""
    taints: Annotated[list[NodeTaint], Field(max_length=MOST_TAINTS)] = []
    """Taints of the node."""
    startup_taints: Annotated[list[NodeTaint], Field(max_length=MOST_TAINTS)] = []
    """Taints that the node starts with and that another agent removes."""
    kubelet: ProvisionerKubelet | None = None
    """Settings of the kubelet."""
    machine_template_ref: NodeTemplateReference | None = None
    """The AWSNodeTemplate of the node."""


class MachineStatus(ApiModel):
    """The node that came."""

    node_name: Text | None = None
    """Name of the node."""
    provider_id: Text | None = Field(default=None, alias="providerID")
    """The instance: aws:///<zone>/<instance id>. The node of the same spec.providerID is this machine's."""
    capacity: Resources = {}
    """All that the node has."""
    allocatable: Resources = {}
    """What pods can use of the node."""
    conditions: list[StatusCondition] = []
    """MachineLaunched, MachineRegistered, MachineInitialized, and Ready when all three are true; also MachineEmpty,
    MachineDrifted and MachineExpired."""


class Machine(Resource):
    """A Machine stands for one node, from the plan that wants it to the instance that is gone."""

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
    """The node that is asked for."""
    status: MachineStatus = MachineStatus()
    """The node that came."""
