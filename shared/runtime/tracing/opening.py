"""Opens the tracer of a service, if a collector is named."""

from __future__ import annotations

import random

from shared.concurrency.clock import Clock
from shared.distribution.version import VERSION
from shared.errors import ConfigurationError
from shared.metrics import Metrics
from shared.runtime.tracing.tracer import OFF, Tracer
from shared.settings import ServiceSettings


def open_tracer(
    name: str,
    settings: ServiceSettings,
    metrics: Metrics,
    *,
    instance: str,
    clock: Clock,
    chance: random.Random,
) -> Tracer:
    """``OFF`` without OTEL_EXPORTER_OTLP_ENDPOINT. Raises ConfigurationError when the SDK is not installed."""
    endpoint = settings.otel_exporter_otlp_endpoint
    if not endpoint:
        return OFF
    try:
        # Here, because the SDK costs each process that does not trace some megabytes and a twentieth of a second.
        from shared.runtime.tracing.otlp import open_otlp_tracer
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but {error.name} is not installed: "
            "pip install 'dovetail[tracing]', or leave the variable out"
        ) from error

    def dropped(reason: str, spans: int) -> None:
        metrics.dropped_spans.labels(reason).inc(spans)

    resource = {
        "service.name": f"dovetail-{name}",
        "service.version": VERSION,
        "service.instance.id": instance,
        "k8s.cluster.name": settings.cluster_name,
    }
    return open_otlp_tracer(endpoint, dropped, resource=resource, clock=clock, chance=chance)
