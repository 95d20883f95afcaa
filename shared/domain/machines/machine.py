"""Machine: the record of one Machine or NodeClaim, from the launch request to the termination of its instance."""

from __future__ import annotations

import msgspec

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.pools.generations import GENERATIONS, V1ALPHA5, Generation

LAUNCHED = "Launched"
REGISTERED = "Registered"
INITIALIZED = "Initialized"
EMPTY = "Empty"
DRIFTED = "Drifted"
EXPIRED = "Expired"
CONSOLIDATABLE = "Consolidatable"
DISRUPTION_REASON = "DisruptionReason"
"""True while a disruption command holds the machine; its reason says why (EXE-02)."""
DRAINED = "Drained"
VOLUMES_DETACHED = "VolumesDetached"
INSTANCE_TERMINATING = "InstanceTerminating"
CONSISTENT = "ConsistentStateFound"
"""Condition types. On a v1alpha5 Machine most of them have the prefix ``Machine`` (M-03, NC-03)."""


class Condition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One status condition; ``since`` is lastTransitionTime in seconds since the epoch."""

    status: str
    reason: str = ""
    message: str = ""
    since: float = 0.0
    generation: int = 0
    """observedGeneration; 0: absent."""


class Machine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One machine, as stored on the API server: a Machine or a NodeClaim."""

    uid: str
    name: str
    pool: str = ""
    """Name of its pool; empty for one that a person wrote by hand (NC-10)."""
    generation_api: str = V1ALPHA5
    created_at: float = 0.0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    requirements: tuple[Expression, ...] = ()
    requests: dict[str, int] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    kubelet: dict[str, object] = {}
    node_class: str = ""
    expire_seconds: float | None = None
    """v1: copied from the pool at creation (NC-01), None: never. v1alpha5: None, because the Provisioner decides."""
    termination_grace_seconds: float | None = None
    provider_id: str = ""
    node_name: str = ""
    image_id: str = ""
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    last_pod_event_at: float = 0.0
    conditions: dict[str, Condition] = {}
    terminating: bool = False
    deleted_at: float = 0.0
    """metadata.deletionTimestamp in seconds since the epoch; 0: not terminating."""
    terminate_at: float | None = None
    """Annotation nodeclaim-termination-timestamp: from then on nothing holds the drain (TRM-10, TRM-12)."""
    finalizers: tuple[str, ...] = ()

    @property
    def api(self) -> Generation:
        """The rules of its generation."""
        return GENERATIONS[self.generation_api]

    @property
    def kind(self) -> str:
        return self.api.machine_kind

    @property
    def key(self) -> str:
        """``NodeClaim/default-abc``: what messages name."""
        return f"{self.kind}/{self.name}"

    @property
    def pool_key(self) -> str:
        """Key of its pool; empty without one."""
        return f"{self.api.pool_kind}/{self.pool}" if self.pool else ""

    @property
    def node_class_key(self) -> str:
        """Key of its node class."""
        return f"{self.api.class_kind}/{self.node_class}"

    def has(self, condition: str) -> bool:
        """Whether this condition is True."""
        found = self.conditions.get(condition)
        return found is not None and found.status == "True"

    @property
    def instance_type(self) -> str:
        return self.labels.get(keys.INSTANCE_TYPE, "")

    @property
    def zone(self) -> str:
        return self.labels.get(keys.ZONE, "")

    @property
    def capacity_type(self) -> str:
        return self.labels.get(keys.CAPACITY_TYPE, "")

    @property
    def decision(self) -> str:
        """The id of the recorded decision that bought it; empty where there is none."""
        return "" if self.bought_for else self.annotations.get(keys.PLAN_ANNOTATION, "")

    @property
    def bought_for(self) -> str:
        """What its pool is to have, in words, where that is why it was bought; else empty."""
        plan = self.annotations.get(keys.PLAN_ANNOTATION, "")
        if plan.startswith(keys.STATIC_PLAN):
            return f"one of the replicas of {self.pool_key}"
        if plan.startswith(keys.KEPT_PLAN):
            return f"for the minimum and headroom of {self.pool_key}"
        return ""

    @property
    def noted_price(self) -> int | None:
        """Micro-USD an hour, as known at the launch; None without a note."""
        noted = self.annotations.get(keys.PRICE_ANNOTATION, "")
        return int(noted) if noted.isdecimal() else None
