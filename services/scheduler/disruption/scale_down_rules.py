"""Cluster Autoscaler's rules of scale-down as the operator chose them."""

from __future__ import annotations

from shared.domain.workloads.scale_down import ScaleDownRules
from shared.settings import SchedulerSettings


def rules_of(settings: SchedulerSettings) -> ScaleDownRules:
    """Which nodes stay, for how long, and which pods count."""
    share = settings.scale_down_utilization_threshold
    return ScaleDownRules(
        honors_annotations=settings.cluster_autoscaler_annotations,
        keeps_local_storage=settings.skip_nodes_with_local_storage,
        keeps_system_pods=settings.skip_nodes_with_system_pods,
        threshold_percent=round(share * 100) if share else None,
        delay_after_add=settings.scale_down_delay_after_add,
        delay_after_delete=settings.scale_down_delay_after_delete,
        delay_after_failure=settings.scale_down_delay_after_failure,
        unneeded_seconds=settings.scale_down_unneeded_time,
    )
