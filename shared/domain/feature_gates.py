"""Feature gates: behaviour that an operator switches on or off by name (OPS-02, GAT-*)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ON = ("true", "1", "t", "yes")
OFF = ("false", "0", "f", "no")


class FeatureGates(msgspec.Struct, frozen=True):
    """The state of every gate, with Karpenter's defaults."""

    node_repair: bool = False
    """Replace nodes that stay unhealthy (TRM-20)."""
    reserved_capacity: bool = True
    """Use capacity reservations."""
    spot_to_spot_consolidation: bool = False
    """Replace a spot node by a cheaper spot node (CON-08)."""
    node_overlay: bool = False
    """Read NodeOverlays (NO-01)."""
    static_capacity: bool = False
    """Keep pools with ``spec.replicas`` at that size (GAT-01)."""
    capacity_buffer: bool = False
    """Keep the room that CapacityBuffers ask for (GAT-02)."""
    provisioning_request: bool = False
    """Answer ProvisioningRequests (GAT-04). Karpenter has no such gate."""
    pod_group: bool = False
    """Read the sizes of gangs from PodGroups of scheduler-plugins (SCH-114). Karpenter has no such gate."""
    workload: bool = False
    """Read the sizes of gangs from Workloads of Kubernetes (SCH-114). Karpenter has no such gate."""
    vertical_pod_autoscaler: bool = False
    """Consider the recommendations of VerticalPodAutoscalers (POD-12). Karpenter has no such gate."""
    drift: bool = False
    """Replace drifted Machines of Provisioners (DRF-08). NodeClaims of NodePools always may drift (OPS-05)."""


class AwsFeatureGates(msgspec.Struct, frozen=True):
    """The gates of AWS_FEATURE_GATES, with Karpenter's defaults."""

    node_class_cel: bool = False
    """CEL expressions in the kubelet settings of an EC2NodeClass (EC-11)."""


def gate_name(field: str) -> str:
    """The name that users write, of a field of FeatureGates."""
    return "".join(part.capitalize() for part in field.split("_"))


_FIELDS = {gate_name(field): field for field in FeatureGates.__struct_fields__}
_AWS_FIELDS = {"NodeClassCEL": "node_class_cel"}


def _pattern(known: Mapping[str, str]) -> str:
    gate = rf"\s*(({'|'.join(known)})\s*=\s*(?i:{'|'.join((*ON, *OFF))})\s*)?"
    return f"^{gate}(,{gate})*$"


GATES_PATTERN = _pattern(_FIELDS)
"""Of every text that ``parse_feature_gates`` takes, as a regular expression of Python and Go."""
AWS_GATES_PATTERN = _pattern(_AWS_FIELDS)


def parse_feature_gates(text: str) -> FeatureGates:
    """``NodeRepair=true,Drift=false`` -> gates. Missing gates keep their defaults; of repeated gates the last counts.

    Raises ValueError that names every wrong part and the known gates.
    """
    return FeatureGates(**_states(text, _FIELDS))


def parse_aws_feature_gates(text: str) -> AwsFeatureGates:
    """``NodeClassCEL=true`` -> gates. Raises ValueError as ``parse_feature_gates``."""
    return AwsFeatureGates(**_states(text, _AWS_FIELDS))


def _states(text: str, known: Mapping[str, str]) -> dict[str, bool]:
    gates: dict[str, bool] = {}
    wrong: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, state = (word.strip() for word in part.partition("="))
        if name not in known:
            wrong.append(f"{name[:40]!r} is not a feature gate; use {', '.join(known)}")
        elif state.lower() not in (*ON, *OFF):
            wrong.append(f"{name} must be true or false, as in {name}=true")
        else:
            gates[known[name]] = state.lower() in ON
    if wrong:
        raise ValueError("; ".join(wrong[:5]))
    return gates
