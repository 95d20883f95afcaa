"""The setting of the two services that serve metrics about the whole cluster."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class ClusterMetricsSettings(BaseSettings):
    """Whether they do."""

    disable_cluster_state_observability: bool = Field(
        False,
        description="Serve no metrics of single nodes, pods, pools and instance types, which are most of the rows in a "
        "large cluster.",
    )
