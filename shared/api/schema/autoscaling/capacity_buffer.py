"""Schema of autoscaling.x-k8s.io/v1beta1 CapacityBuffer (GAT-02)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field

from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.v1.node_pool import Resources

ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
"""The only strategy that is defined; objects of others belong to other autoscalers."""
Name = Annotated[str, Field(min_length=1, max_length=253)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


def _check_references(raw: Json) -> Iterable[tuple[Path, str]]:
    both = raw.get("podTemplateRef") is not None and raw.get("scalableRef") is not None
    if both:
        yield ("scalableRef",), "podTemplateRef and scalableRef exclude each other; remove one"
    elif raw.get("podTemplateRef") is None and raw.get("scalableRef") is None:
        yield ("podTemplateRef",), "is required; name a PodTemplate, or a workload in scalableRef"


def _check_size(raw: Json) -> Iterable[tuple[Path, str]]:
    sized = raw.get("replicas") is not None or raw.get("limits") is not None
    if raw.get("podTemplateRef") is not None and not sized:
        yield ("replicas",), "is required with podTemplateRef, or limits"


class PodTemplateReference(ApiModel):
    """A PodTemplate in the same namespace."""

    name: Name
    """Name of the PodTemplate."""


class ScalableReference(ApiModel):
    """A workload in the same namespace."""

    api_group: str = ""
    """API group of the workload; empty means apps."""
    kind: Annotated[str, Field(min_length=1)]
    """Deployment, StatefulSet or ReplicaSet."""
    name: Name
    """Name of the workload."""


class CapacityBufferSpec(ApiModel):
    """How much room is kept, and for which pods."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "exactly one of podTemplateRef and scalableRef is required",
            "has(self.podTemplateRef) != has(self.scalableRef)",
            _check_references,
        ),
        Rule(
            "podTemplateRef needs replicas or limits",
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            _check_size,
        ),
    )

    provisioning_strategy: str = ACTIVE_CAPACITY
    """How the room is kept. buffer.x-k8s.io/active-capacity: on nodes that run. Objects with another strategy are
    ignored."""
    pod_template_ref: PodTemplateReference | None = None
    """The PodTemplate that describes one pod of the buffer."""
    scalable_ref: ScalableReference | None = None
    """The workload whose pod template describes one pod of the buffer."""
    replicas: Count | None = None
    """Number of pods for which room is kept. With percentage the greater of both counts."""
    percentage: Count | None = None
    """The same in percent of the replicas of scalableRef, rounded up, at least 1."""
    limits: Resources | None = None
    """The most that all pods of the buffer request together. Alone, it also sets their number."""


class CapacityBufferStatus(ApiModel):
    """What the buffer was resolved to."""

    pod_template_ref: PodTemplateReference | None = None
    """The PodTemplate that is used; absent with scalableRef."""
    pod_template_generation: int | None = None
    """Its generation."""
    replicas: int | None = None
    """Number of pods for which room is kept."""
    provisioning_strategy: str | None = None
    """The strategy that is followed."""
    conditions: list[StatusCondition] = []
    """ReadyForProvisioning: the reference was resolved. Provisioning: the room is there."""


class CapacityBuffer(Resource):
    """A CapacityBuffer keeps room for pods that do not exist yet, so that they start at once when they come."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="autoscaling.x-k8s.io",
        version="v1beta1",
        kind="CapacityBuffer",
        plural="capacitybuffers",
        short_names=("cb",),
        categories=(),
        columns=(
            Column("Strategy", ".spec.provisioningStrategy", wide=True),
            Column("Replicas", ".status.replicas", "integer"),
            Column("Ready", '.status.conditions[?(@.type=="ReadyForProvisioning")].status'),
            Column("Provisioning", '.status.conditions[?(@.type=="Provisioning")].reason'),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        namespaced=True,
        also_served=("v1alpha1",),
    )

    spec: CapacityBufferSpec
    """How much room is kept, and for which pods."""
    status: CapacityBufferStatus = CapacityBufferStatus()
    """What the buffer was resolved to."""
