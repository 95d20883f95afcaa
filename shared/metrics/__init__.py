"""Metrics under the names that dashboards match on: Karpenter's where it has the metric (MET-01 to MET-13)."""

from shared.metrics.catalogue import Metrics
from shared.metrics.declaring import Series
from shared.metrics.machines import EVENTUAL, GRACEFUL

__all__ = ["EVENTUAL", "GRACEFUL", "Metrics", "Series"]
