"""Settings of the interruption service about termination lifecycle hooks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.settings.types import Duration


class LifecycleHookSettings(BaseSettings):
    """What is done for nodes without a pool that their auto scaling group ends."""

    lifecycle_hooks: Literal["off", "cordon", "drain"] = Field(
        "off",
        description="Handling of termination lifecycle hooks of auto scaling groups, for nodes without a pool.",
    )
    lifecycle_managed_tag: str = Field(
        "aws-node-termination-handler/managed",
        description="Handle only nodes with this key on their labels, auto scaling group or instance; empty: all.",
    )
    lifecycle_heartbeat: Duration = Field(
        300.0,
        description="Interval of the heartbeats of a hook; at most half of its heartbeat timeout. 0: no heartbeats.",
    )
    lifecycle_drain_limit: Duration = Field(
        3600.0,
        description="Maximum duration of such a drain (cordon: of the wait for its pods), within the hook's timeout.",
    )
