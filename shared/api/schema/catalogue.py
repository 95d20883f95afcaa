"""Every kind that Dovetail brings along: CRDs and the field reference are made for these."""

from __future__ import annotations

from shared.api.schema.kinds import Resource
from shared.api.schema.launch_record import LaunchRecord
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
    Provisioner,
    AWSNodeTemplate,
    Machine,
    LaunchRecord,
)
"""In the order in which the reference tells them: each generation together, what users write first."""
