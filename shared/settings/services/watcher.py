"""Settings of the watcher."""

from __future__ import annotations

from pydantic import Field

from shared.settings.devices import DeviceSettings
from shared.settings.observability import ClusterMetricsSettings
from shared.settings.services.base import ServiceSettings
from shared.settings.types import Duration


class WatcherSettings(DeviceSettings, ServiceSettings, ClusterMetricsSettings):
    """Settings of the watcher."""

    watch_check_period: Duration = Field(
        300.0,
        ge=1,
        description="How often the mirror of the cluster is compared with new lists (metadata only).",
    )
