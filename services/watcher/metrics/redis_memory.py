"""How full Redis is. A full one refuses every message and every change of the mirror (F10)."""

from __future__ import annotations

from shared.errors import DovetailError
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.bus import Bus

log = get_logger(__name__)


async def measure_memory(bus: Bus, metrics: Metrics) -> None:
    """Set the gauges. When Redis does not say it (a managed one may refuse INFO), the last values stay."""
    try:
        used, limit = await bus.memory()
    except DovetailError as error:
        log.debug("the memory of Redis is not known", error=error.message)
        return
    metrics.redis_memory.set(used)
    metrics.redis_memory_limit.set(limit)
