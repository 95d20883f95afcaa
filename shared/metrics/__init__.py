"""Metrics under the names that dashboards match on: Karpenter's where it has the metric (MET-01 to MET-13)."""

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
