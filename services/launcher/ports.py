"""The launcher's connections, clock and settings."""

from __future__ import annotations

from dataclasses import dataclass

from shared.cloud.client.session import Cloud
from shared.concurrency.clock import Clock
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.bus.connection import server_time
from shared.runtime.tracing import OFF, Tracer
from shared.settings import LauncherSettings


@dataclass
class Ports:
    """What most parts of the launcher need several of. ``settings`` changes while the process runs (OPS-04): parts
    read a value where they use it, and keep no copy.
    """

    kube: Kube
    cloud: Cloud
    bus: Bus
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    settings: LauncherSettings
    tracer: Tracer = OFF

    async def shared_now(self) -> float:
        """Seconds since the epoch by Redis' clock, which all launchers share; by this one's while Redis is away."""
        try:
            return await server_time(self.bus.redis)
        except DovetailError:
            return self.clock.now()
