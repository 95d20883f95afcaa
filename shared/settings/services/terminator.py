"""Settings of the terminator: drains and termination."""

from __future__ import annotations

from pydantic import Field

from shared.settings.services.base import AwsSettings
from shared.settings.types import Duration, Rate


class TerminatorSettings(AwsSettings):
    """Settings of the terminator: drains and termination."""

    drain_minimum: Duration = Field(5.0, description="Minimum duration of a drain.")
    poll_seconds: Duration = Field(1.0, description="How often the state of a drain is checked.")
    self_managed_nodes: bool = Field(
        True, description="Drain nodes without a pool when a lifecycle hook waits for it."
    )
    enable_out_of_service_taint: bool = Field(
        False, description="Taint such nodes as out of service when they are drained."
    )
    kube_client_qps: Rate = Field(
        500,
        description="Requests per second to the API server, on average; enough for hundreds of drains at once.",
    )
    kube_client_burst: int = Field(500, ge=1, description="Burst of requests to the API server.")
