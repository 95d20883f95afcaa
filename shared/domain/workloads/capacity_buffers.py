"""Records of what room is kept for: CapacityBuffers, and the pod templates that they name (GAT-02)."""

from __future__ import annotations

import msgspec

from shared.domain.machines.machine import Condition
from shared.domain.workloads.pods import Pod

POD_TEMPLATE = "PodTemplate"
SCALABLE_KINDS = ("Deployment", "ReplicaSet", "StatefulSet")
"""Kinds of group apps that scalableRef may name."""


class PodTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A PodTemplate, or the template of a workload. ``pod`` is what a pod made from it would request."""

    kind: str
    namespace: str
    name: str
    pod: Pod
    generation: int = 0
    replicas: int = 0
    """Of a workload."""

    @property
    def key(self) -> str:
        """``Deployment/namespace/name``."""
        return template_key(self.kind, self.namespace, self.name)


def template_key(kind: str, namespace: str, name: str) -> str:
    """The key of a template in the mirror."""
    return f"{kind}/{namespace}/{name}"


class CapacityBuffer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A CapacityBuffer with what its status shows. ``faults`` of its spec: no room is kept then."""

    uid: str
    namespace: str
    name: str
    generation: int = 0
    kind: str = POD_TEMPLATE
    """Kind of the object that ``template`` names."""
    group: str = ""
    """API group of a workload, as written."""
    template: str = ""
    replicas: int | None = None
    percentage: int | None = None
    limits: dict[str, int] | None = None
    is_active: bool = True
    """False: its strategy is another autoscaler's."""
    faults: tuple[str, ...] = ()
    conditions: dict[str, Condition] = {}
    shown: dict[str, str | int] = {}
    """The other fields of its status, by the names of the API."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def template_key(self) -> str:
        """Key of the template that describes its pods."""
        return template_key(self.kind, self.namespace, self.template)
