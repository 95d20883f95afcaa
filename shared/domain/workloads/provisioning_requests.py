"""Records of ProvisioningRequests, and how far one has come: pure, from its conditions and the time (GAT-04)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from shared.domain.machines.machine import Condition
from shared.domain.workloads.capacity_buffers import POD_TEMPLATE, template_key

CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CLASSES = (CHECK_CAPACITY, ATOMIC)
ACCEPTED, PROVISIONED, FAILED = "Accepted", "Provisioned", "Failed"
BOOKING_EXPIRED, CAPACITY_REVOKED = "BookingExpired", "CapacityRevoked"
CHECK_ONLY, BOOK_PARTIAL = "checkOnly", "bookPartial"
"""How a check answers by pod set: without keeping a part, or keeping it."""
BOOKING_SECONDS = 600.0
"""How long the room is kept for pods of the request, as in Cluster Autoscaler."""
VALID_SECONDS = 7 * 24 * 3600.0
"""How long is tried without ValidUntilSeconds, as in Cluster Autoscaler."""


class Stage(StrEnum):
    """OPEN: an answer is due. BOOKED: the room is kept. OVER: nothing is kept any more."""

    OPEN = "open"
    BOOKED = "booked"
    OVER = "over"


class PodSet(msgspec.Struct, frozen=True):
    """``template``: name of a PodTemplate of the request's namespace."""

    template: str
    count: int


class ProvisioningRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A ProvisioningRequest with the conditions of its status. ``faults`` of its spec: it fails."""

    uid: str
    namespace: str
    name: str
    generation: int = 0
    created_at: float = 0.0
    class_name: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    valid_seconds: float = VALID_SECONDS
    retries: bool = True
    """False: it fails when there is no room at once."""
    partial: str = ""
    """Of a check: each pod set is looked at by itself; empty: all together."""
    fitting: tuple[str, ...] = ()
    """Templates of the pod sets for which a check found room, as its status says."""
    faults: tuple[str, ...] = ()
    conditions: dict[str, Condition] = {}

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_ours(self) -> bool:
        """False: its class is another program's."""
        return self.class_name in CLASSES

    @property
    def pods(self) -> int:
        return sum(one.count for one in self.pod_sets)

    @property
    def booked_sets(self) -> tuple[tuple[int, PodSet], ...]:
        """(index, pod set) of those whose room is asked for or kept."""
        found = tuple(enumerate(self.pod_sets))
        if not (self.partial and self.fitting and self.has(PROVISIONED)):
            return found
        return tuple((index, one) for index, one in found if one.template in self.fitting)

    def template_key(self, pod_set: PodSet) -> str:
        """Key of the pod set's template in the mirror."""
        return template_key(POD_TEMPLATE, self.namespace, pod_set.template)

    def has(self, condition: str) -> bool:
        """Is the condition True?"""
        found = self.conditions.get(condition)
        return found is not None and found.status == "True"

    def stage(self, *, now: float) -> Stage:
        """``now``: seconds since the epoch."""
        if self.has(FAILED) or self.has(BOOKING_EXPIRED) or self.has(CAPACITY_REVOKED):
            return Stage.OVER
        if not self.has(PROVISIONED):
            return Stage.OPEN
        until = self.conditions[PROVISIONED].since + BOOKING_SECONDS
        return Stage.BOOKED if now < until else Stage.OVER
