"""Settings of the scheduler: batching, planning, disruption."""

from __future__ import annotations

from pydantic import Field

from shared.settings.approvals import ApprovalSettings
from shared.settings.devices import DeviceSettings
from shared.settings.observability import ClusterMetricsSettings
from shared.settings.records import RecordSettings
from shared.settings.scale_down import ScaleDownSettings
from shared.settings.services.base import ServiceSettings
from shared.settings.shortages import ShortageSettings
from shared.settings.types import CountTerminating, Duration


class SchedulerSettings(
    DeviceSettings,
    RecordSettings,
    ApprovalSettings,
    ServiceSettings,
    ClusterMetricsSettings,
    ScaleDownSettings,
    ShortageSettings,
):
    """Settings of the scheduler: batching, planning, disruption."""

    limits_count_terminating: CountTerminating = True
    batch_idle_duration: Duration = Field(
        1.0, description="A batch closes after this long without a new pod."
    )
    batch_max_duration: Duration = Field(
        10.0, description="Maximum time for which a batch stays open."
    )
    nomination_minimum: Duration = Field(
        10.0, description="How long a node that a plan selected for pods does not count as empty."
    )
    preference_policy: str = Field(
        "Respect",
        pattern="^(Respect|Ignore)$",
        description="Respect or Ignore the preferences of pods.",
    )
    min_values_policy: str = Field(
        "Strict",
        pattern="^(Strict|BestEffort)$",
        description="Strict: no machine below a pool's minValues; BestEffort: minValues may be relaxed.",
    )
    scheduler_config: str = Field(
        "",
        description="kube-scheduler's configuration, or its path; its default spread constraints apply.",
    )
    nominate: str = Field(
        "auto",
        pattern="^(auto|on|off)$",
        description="Set status.nominatedNodeName of pods to the planned node: on, off; auto: from Kubernetes 1.35 on, "
        "where kube-scheduler uses it.",
    )
    packing_policy: str = Field(
        "FewestNodes",
        pattern="^(FewestNodes|LowestCost|Balanced)$",
        description="FewestNodes, Balanced or LowestCost, for pools without the annotation dovetail.sh/packing.",
    )
    node_price: float | None = Field(
        None,
        ge=0,
        lt=1000,
        allow_inf_nan=False,
        description="What LowestCost and Balanced count for one more node beside its price, in US dollars per hour; "
        "unset: 0, with Balanced its own default. The annotation dovetail.sh/node-price of a pool has precedence.",
    )
    packing_effort: int = Field(
        200,
        ge=0,
        le=10_000,
        description="Search effort of LowestCost per plan; each unit takes about 4 ms of CPU where it is used up.",
    )
    packing_most_cpu: int = Field(
        0, ge=0, description="Largest node that LowestCost plans, in vCPU; 0: any size."
    )
    policy_price_period: Duration = Field(
        0.0,
        description="How often the price of all pods by each packing policy is computed, beside the work; 0: never.",
    )
    pod_hint_period: Duration = Field(
        0.0, description="How often one waiting pod gets an event with a change; 0: never."
    )
    disruption: str = Field(
        "on",
        pattern="^(on|off)$",
        description="off stops all voluntary disruption (kill switch); interruptions are still handled.",
    )
    disruption_period: Duration = Field(
        10.0,
        description="How often the scheduler searches for machines to disrupt while there are none.",
    )
    validation_delay: Duration = Field(
        15.0, description="Delay after which a consolidation is validated again before it starts."
    )
    consolidation: str = Field(
        "auto",
        pattern="^(Karpenter|Global|auto)$",
        description="For pools that do not say. auto: Global where LowestCost or Balanced packs.",
    )
    consolidation_move_cost: float = Field(
        0.005,
        ge=0,
        le=1000,
        description="Cost that Global assumes for moving one pod, in US dollars.",
    )
    consolidation_payback: Duration = Field(
        3600.0, ge=1, description="Time within which a move of Global must save its cost."
    )
    consolidation_rest: Duration = Field(
        60.0,
        description="Time after its initialization for which Global does not consolidate a machine.",
    )
    mirror_max_age: Duration = Field(
        60.0,
        description="Maximum age of the mirror; with an older one nothing is planned or deleted.",
    )
