"""Settings of the launcher about what node classes select, under Karpenter's names."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.settings.types import AwsGates, Duration

SHORTEST_REFRESH = 1.0
"""Seconds. Each look at a node class asks AWS some ten questions."""


class NodeClassSettings(BaseSettings):
    """How old what AWS said may be, and what is in alpha."""

    aws_feature_gates: AwsGates = Field(
        "NodeClassCEL=false",
        validate_default=True,
        description="Gates of AWS; NodeClassCEL: expressions in the kubelet settings of a node class.",
    )
    ami_refresh_interval: Duration = Field(
        60.0,
        ge=SHORTEST_REFRESH,
        description="How old images of a node class may be before they are looked up again.",
    )
    subnet_refresh_interval: Duration = Field(
        60.0,
        ge=SHORTEST_REFRESH,
        description="How old subnets and security groups of a node class may be before they are looked up again.",
    )
