"""Settings about devices of resource claims."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class DeviceSettings(BaseSettings):
    """Of services that know devices of resource claims."""

    ignore_dra_requests: bool = Field(
        True,
        description="Do not plan pods with resource claims; false: plan them with their devices.",
    )
