"""Bodies of the control endpoint's POST requests. Unknown fields are refused, so a typing error is
not ignored.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from local.aws.faults import DROPPED

CapacityCode = Literal[
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "VcpuLimitExceeded",
]


class ControlRequest(BaseModel):
    """camelCase on the wire, no unknown fields."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class CapacityRequest(ControlRequest):
    """``available`` null lifts the limit; ``code`` is what the empty pool answers."""

    instance_type: str
    zone: str
    capacity_type: Literal["spot", "on-demand"]
    available: int | None = Field(ge=0)
    code: CapacityCode = "InsufficientInstanceCapacity"


class FaultRequest(ControlRequest):
    """``status`` 0 closes the connection without an answer."""

    action: str = Field(min_length=1)
    code: str = "InternalError"
    message: str = "An internal error has occurred"
    status: int = Field(500, ge=DROPPED, le=599)
    count: int = Field(1, ge=1, le=10_000)
    mode: Literal["before", "after"] = "before"


class InterruptionRequest(ControlRequest):
    """``foreign`` allows ids that this emulator does not know, as another cluster's instances."""

    kind: Literal["spot", "rebalance", "state-change", "health", "capacity-reservation"]
    instance_id: str | None = None
    instance_ids: list[str] = Field(default=[], max_length=100)
    notice_seconds: float | None = Field(None, ge=0, le=3600)
    state: Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"] = (
        "stopping"
    )
    foreign: bool = False
    service: str | None = None
    event_type_code: str | None = None
    event_type_category: str | None = None

    def health_overrides(self) -> dict[str, str]:
        """Fields of the Health event's detail that the request replaces."""
        names = {"service", "event_type_code", "event_type_category"}
        return self.model_dump(include=names, exclude_none=True, by_alias=True)


class SettingsRequest(ControlRequest):
    """Timings in seconds; those left out stay."""

    instance_pending_seconds: float | None = Field(None, ge=0, le=3600)
    instance_shutting_down_seconds: float | None = Field(None, ge=0, le=3600)
    interruption_notice_seconds: float | None = Field(None, ge=0, le=3600)
    terminated_visible_seconds: float | None = Field(None, ge=0, le=86400)
    describe_lag_seconds: float | None = Field(None, ge=0, le=600)
