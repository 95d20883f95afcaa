"""Records of nodes and daemon sets, with the fields that the planner needs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shared.domain import labels as keys
from shared.domain.devices.records import PodClaim
from shared.domain.expressions import NO_EXECUTE, NO_SCHEDULE, Expression, Taint, Toleration


class Node(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One node of the cluster, ours or not."""

    uid: str
    name: str
    provider_id: str = ""
    created_at: float = 0.0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = False
    terminating: bool = False
    finalizers: tuple[str, ...] = ()
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}

    @property
    def pool(self) -> str:
        """The owning pool's name, empty for a node that is not ours (MAP-01)."""
        found = self.labels.get(keys.PROVISIONER_NAME) or self.labels.get(keys.NODE_POOL) or ""
        return "" if found and self.is_of_auto_mode else found

    @property
    def pool_key(self) -> str:
        """Key of the owning pool (MAP-01: one label decides, v1alpha5's first); empty for a node that is not ours."""
        kind = "Provisioner" if self.labels.get(keys.PROVISIONER_NAME) else "NodePool"
        return f"{kind}/{self.pool}" if self.pool else ""

    @property
    def is_of_auto_mode(self) -> bool:
        """Whether EKS Auto Mode keeps it, whose nodes have the label and the finalizer of a NodePool as ours do."""
        return is_of_auto_mode(self.labels)

    @property
    def waits_for_us(self) -> bool:
        """Whether its deletion ends only when the terminator has taken our finalizer off."""
        return keys.FINALIZER in self.finalizers and not self.is_of_auto_mode

    @property
    def is_managed(self) -> bool:
        return bool(self.pool)

    @property
    def is_registered(self) -> bool:
        """Whether it has the labels and taints of its machine (LCH-73)."""
        return self.labels.get(keys.REGISTERED) == "true"

    @property
    def is_initialized(self) -> bool:
        return self.labels.get(keys.INITIALIZED) == "true"


class DaemonDevices(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a pod of a daemon set takes of the devices of new machines of these instance types, by column."""

    types: tuple[str, ...]
    amounts: dict[str, int] = {}


class DaemonSet(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A daemon set's pod template, for the overhead that each new node carries (SCH-46)."""

    uid: str
    namespace: str
    name: str
    requests: dict[str, int] = {}
    node_selector: dict[str, str] = {}
    required_terms: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[tuple[str, str, int], ...] = ()
    device_claims: tuple[PodClaim, ...] = ()
    devices: tuple[DaemonDevices, ...] | None = None
    """Set in plans only, from ``device_claims``: on other instance types none of its pods runs. None: it asks for no
    devices."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


EPHEMERAL_TAINTS = (
    Taint("node.kubernetes.io/not-ready", NO_SCHEDULE),
    Taint("node.kubernetes.io/not-ready", NO_EXECUTE),
    Taint("node.kubernetes.io/unreachable", NO_SCHEDULE),
    Taint("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE, "true"),
    Taint(keys.UNREGISTERED_TAINT_KEY, NO_EXECUTE),
)
"""Taints that are removed automatically while a node starts (SCH-52)."""

DISRUPTED = Taint(keys.DISRUPTED_TAINT_KEY, NO_SCHEDULE)
"""On v1 nodes that are being terminated or disrupted (KEY-04)."""
CORDONED = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)
"""The taint for ``spec.unschedulable``, which v1alpha5 sets on disrupted nodes."""
OUT_OF_SERVICE = Taint("node.kubernetes.io/out-of-service", NO_EXECUTE, "nodeshutdown")
"""Has Kubernetes delete the pods of a node and detach its volumes at once, as if the node were known to be off."""
EPHEMERAL_TAINT_PREFIX = "readiness.k8s.io/"


def is_of_auto_mode(labels: Mapping[str, str]) -> bool:
    """Whether EKS Auto Mode keeps the node with these labels: it alone drains and ends it."""
    return labels.get(keys.COMPUTE_TYPE) == keys.AUTO_MODE or keys.AUTO_MODE_CLASS in labels


def is_ephemeral(taint: Taint) -> bool:
    """SCH-52: whether this taint is removed automatically."""
    return taint in EPHEMERAL_TAINTS or taint.key.startswith(EPHEMERAL_TAINT_PREFIX)


def provider_instance_id(provider_id: str) -> str:
    """``i-…`` of ``aws:///zone/i-…``; empty for another provider's id (LCH-58)."""
    last = provider_id.rsplit("/", 1)[-1]
    return last if provider_id.startswith("aws://") and last.startswith("i-") else ""


def provider_zone(provider_id: str) -> str:
    """The zone of ``aws:///zone/i-…``; empty for another provider's id."""
    return provider_id.split("/")[-2] if provider_instance_id(provider_id) else ""
