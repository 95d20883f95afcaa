"""Metrics under the names that dashboards match on: where Karpenter has the metric, its name is kept (area 9.4)."""

from shared.metrics.catalogue import Metrics
from shared.metrics.declaring import Declared, Series
from shared.metrics.machines import EVENTUAL, FORCEFUL, GRACEFUL, MACHINE_EVENTS, Counted

__all__ = [
    "EVENTUAL",
    "FORCEFUL",
    "GRACEFUL",
    "MACHINE_EVENTS",
    "Counted",
    "Declared",
    "Metrics",
    "Series",
]
