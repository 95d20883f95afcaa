"""Every kind that has a CRD of Dovetail; the CRDs and the field reference are generated for these."""

from __future__ import annotations

from shared.api.schema.autoscaling.capacity_buffer import CapacityBuffer
from shared.api.schema.autoscaling.provisioning_request import ProvisioningRequest
from shared.api.schema.kinds import Resource
from shared.api.schema.launch_record import LaunchRecord
from shared.api.schema.v1.device_template import DeviceTemplate
from shared.api.schema.v1.ec2_node_class import EC2NodeClass
from shared.api.schema.v1.node_claim import NodeClaim
from shared.api.schema.v1.node_overlay import NodeOverlay
from shared.api.schema.v1.node_pool import NodePool
from shared.api.schema.v1alpha5.aws_node_template import AWSNodeTemplate
from shared.api.schema.v1alpha5.machine import Machine
from shared.api.schema.v1alpha5.provisioner import Provisioner

KINDS: tuple[type[Resource], ...] = (
    NodePool,
    EC2NodeClass,
    NodeClaim,
    NodeOverlay,
    DeviceTemplate,
    Provisioner,
    AWSNodeTemplate,
    Machine,
    CapacityBuffer,
    ProvisioningRequest,
    LaunchRecord,
)
"""In the order of the field reference: by generation, first the kinds that users write."""
