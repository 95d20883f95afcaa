"""The terminator's connections, clock and settings."""

from __future__ import annotations

from dataclasses import dataclass

from shared.cloud.client.session import Cloud
from shared.concurrency.clock import Clock
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.runtime.tracing import OFF, Tracer
from shared.settings import TerminatorSettings


@dataclass
class Ports:
    """What most parts of the terminator need several of. ``settings`` changes while the process runs (OPS-04): parts
    read a value where they use it, and keep no copy.
    """

    kube: Kube
    cloud: Cloud
    bus: Bus
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    settings: TerminatorSettings
    tracer: Tracer = OFF
