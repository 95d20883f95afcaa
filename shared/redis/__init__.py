"""Everything that is in Redis: the queue between services, and the mirror of the cluster."""

from shared.runtime.lean_imports import without

with without("opentelemetry.sdk"):
    # Metrics of the client, which nobody switches on, would cost each service the SDK's import.
    import redis.asyncio  # noqa: F401
