"""Settings of the scheduler for users of Cluster Autoscaler, under its names for them; all are off."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.settings.types import Duration


class ScaleDownSettings(BaseSettings):
    """Which nodes stay, which pods count, and when nodes do not go."""

    cluster_autoscaler_annotations: bool = Field(
        False,
        description="Honour Cluster Autoscaler's annotations safe-to-evict, safe-to-evict-local-volumes and "
        "scale-down-disabled.",
    )
    skip_nodes_with_local_storage: bool = Field(
        False, description="Pods with emptyDir or hostPath keep their node."
    )
    skip_nodes_with_system_pods: bool = Field(
        False, description="Pods of kube-system without a PodDisruptionBudget keep their node."
    )
    scale_down_utilization_threshold: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of cpu or memory that pods request from which on a node is not consolidated; 0: usage does "
        "not matter.",
    )
    scale_down_unneeded_time: Duration = Field(
        0.0,
        description="consolidateAfter of NodePools that have the API's default of 0s.",
    )
    scale_down_delay_after_add: Duration = Field(
        0.0,
        description="No emptiness or consolidation for so long after a machine of any pool was created; pools with "
        "the annotation of this name go by their own machines.",
    )
    scale_down_delay_after_delete: Duration = Field(
        0.0, description="The same after a machine was deleted."
    )
    scale_down_delay_after_failure: Duration = Field(
        0.0, description="The same after a disruption was rolled back."
    )
    expander: str = Field(
        "",
        pattern="^(least-waste|most-pods|random|priority)?$",
        description="Which of several pools of the same weight is tried first: least-waste, most-pods, random or "
        "priority; empty: by name.",
    )
    expander_priorities: str = Field(
        "",
        max_length=20_000,
        description="For EXPANDER=priority: YAML that maps priorities to patterns of pool names, or its path.",
    )
    status_config_map: str = Field(
        "",
        pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        max_length=300,
        description="ConfigMap to write Cluster Autoscaler's status to, as namespace/name; empty: none.",
    )
    expendable_pods_priority_cutoff: int | None = Field(
        None,
        description="Pods of a lower priority get no machines and keep none; unset: every pod counts.",
    )
