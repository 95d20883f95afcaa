"""Machine: our record of one node-to-be, from the plan that wants it to the instance that is gone."""

from __future__ import annotations

import msgspec

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint

LAUNCHED = "MachineLaunched"
REGISTERED = "MachineRegistered"
INITIALIZED = "MachineInitialized"
EMPTY = "MachineEmpty"
"""Condition types of a v1alpha5 Machine (M-03)."""


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One status condition; ``since`` is lastTransitionTime in seconds since the epoch."""

    status: str
    reason: str = ""
    message: str = ""
    since: float = 0.0


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One machine, as stored on the API server."""

    uid: str
    name: str
    pool: str
    created_at: float = 0.0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    requirements: tuple[Expression, ...] = ()
    requests: dict[str, int] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    kubelet: dict[str, object] = {}
    node_class: str = ""
    provider_id: str = ""
    node_name: str = ""
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    conditions: dict[str, Condition] = {}
    terminating: bool = False
    finalizers: tuple[str, ...] = ()

    def has(self, condition: str) -> bool:
        """Is this condition True?"""
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
