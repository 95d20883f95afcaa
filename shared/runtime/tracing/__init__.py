"""OpenTelemetry traces, behind OTEL_EXPORTER_OTLP_ENDPOINT. Without it nothing is recorded and no SDK is imported."""

from shared.runtime.tracing.tracer import OFF, Span, Tracer

__all__ = ["OFF", "Span", "Tracer"]
