"""Schema and parser of each kind of Dovetail, by name. A module is imported when the first object of its kind is read:
a command that reads pools of v1 does not wait for the schemas of the other kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared.api.faults import Fault
    from shared.api.schema.kinds import Resource

Json = Mapping[str, Any]
INSTANCE_TYPE = ("dovetail.sh/v1alpha1", "InstanceType")
"""(apiVersion, kind) of the types of a catalogue in files, which has no CRD."""
SCHEMAS = {
    ("karpenter.sh/v1", "NodePool"): "v1.node_pool",
    ("karpenter.k8s.aws/v1", "EC2NodeClass"): "v1.ec2_node_class",
    ("karpenter.sh/v1", "NodeClaim"): "v1.node_claim",
    ("karpenter.sh/v1alpha1", "NodeOverlay"): "v1.node_overlay",
    ("karpenter.sh/v1alpha5", "Provisioner"): "v1alpha5.provisioner",
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"): "v1alpha5.aws_node_template",
    ("karpenter.sh/v1alpha5", "Machine"): "v1alpha5.machine",
    ("dovetail.sh/v1alpha1", "LaunchRecord"): "launch_record",
    ("dovetail.sh/v1alpha1", "DeviceTemplate"): "v1.device_template",
    ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer"): "autoscaling.capacity_buffer",
    ("autoscaling.x-k8s.io/v1alpha1", "CapacityBuffer"): "autoscaling.capacity_buffer",
    ("autoscaling.x-k8s.io/v1", "ProvisioningRequest"): "autoscaling.provisioning_request",
    ("autoscaling.x-k8s.io/v1beta1", "ProvisioningRequest"): "autoscaling.provisioning_request",
}
"""(apiVersion, kind) -> module below ``shared.api.schema`` with a model of the kind's name."""

PARSERS = {
    "NodePool": ("v1.node_pools", "parse_node_pool"),
    "EC2NodeClass": ("v1.ec2_node_classes", "parse_ec2_node_class"),
    "NodeClaim": ("v1.node_claims", "parse_node_claim"),
    "NodeOverlay": ("v1.node_overlays", "parse_node_overlay"),
    "Provisioner": ("v1alpha5.provisioners", "parse_provisioner"),
    "AWSNodeTemplate": ("v1alpha5.node_templates", "parse_node_template"),
    "Machine": ("v1alpha5.machines", "parse_machine"),
    "DeviceTemplate": ("hardware.device_templates", "parse_device_template"),
    "InstanceType": ("hardware.instance_types", "parse_instance_type"),
    "CapacityBuffer": ("core.autoscaling.capacity_buffers", "parse_capacity_buffer"),
    "ProvisioningRequest": ("core.autoscaling.provisioning_requests", "parse_provisioning_request"),
}
"""Kind -> module below ``shared.api`` and function. NodeClaim and Machine give a record or raise InvalidObject; the
others give a record and faults."""

WARNERS = {
    "EC2NodeClass": "v1.class_warnings",
    "AWSNodeTemplate": "v1.class_warnings",
    "NodePool": "v1.node_pools",
    "CapacityBuffer": "core.autoscaling.capacity_buffers",
    "ProvisioningRequest": "core.autoscaling.provisioning_requests",
}
"""Kind -> module below ``shared.api`` whose ``warnings_of`` finds valid settings that are probably a mistake."""


def schema_of(identity: tuple[str, str]) -> type[Resource] | None:
    """The model of (apiVersion, kind); None for a kind that is not ours."""
    module = SCHEMAS.get(identity)
    if module is None:
        return None
    found: type[Resource] = getattr(import_module(f"shared.api.schema.{module}"), identity[1])
    return found


def warner_of(kind: str) -> Callable[[Json], list[Fault]] | None:
    """``warnings_of`` of one of ``WARNERS``; None for another kind."""
    if kind not in WARNERS:
        return None
    module = import_module(f"shared.api.{WARNERS[kind]}")
    found: Callable[[Json], list[Fault]] = module.warnings_of
    return found


def parser_of(kind: str) -> Callable[[Json], Any]:
    """The parser of one of ``PARSERS``."""
    module, function = PARSERS[kind]
    found: Callable[[Json], Any] = getattr(import_module(f"shared.api.{module}"), function)
    return found
