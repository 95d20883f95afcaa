"""A pod as the planner needs it: what it asks for, where it is, what it does to its node.

No environment, no commands, no secrets: this record travels through Redis.
"""

from __future__ import annotations

import msgspec

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Toleration
from shared.domain.workloads.namespaces import NamespaceSelector

NOBODY = Expression("", "In")
"""Stands for an absent label selector, which selects no pod; an empty one selects every pod."""

_POOL_LABELS = (keys.NODE_POOL, keys.PROVISIONER_NAME)


class SpreadConstraint(msgspec.Struct, frozen=True, omit_defaults=True):
    """``topologySpreadConstraints[]``; ``match_labels`` and ``expressions`` are its label selector."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    match_labels: dict[str, str] = {}
    expressions: tuple[Expression, ...] = ()
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    """Which nodes count as domains (SCH-76): Honor or Ignore what the pod's affinity and tolerations say."""


class PreferredTerm(msgspec.Struct, frozen=True):
    """One preferred node-affinity term, weight 1..100."""

    weight: int
    expressions: tuple[Expression, ...]


class AffinityTerm(msgspec.Struct, frozen=True, omit_defaults=True):
    """One pod affinity or anti-affinity term. ``namespaces`` None means the pod's own, () means all (SCH-83)."""

    topology_key: str
    match_labels: dict[str, str] = {}
    expressions: tuple[Expression, ...] = ()
    namespaces: tuple[str, ...] | None = None
    weight: int | None = None
    """None: required. A number: preferred."""
    namespace_selector: NamespaceSelector | None = None
    """Namespaces with these labels, and those in ``namespaces``; then None there names nobody."""


class Owner(msgspec.Struct, frozen=True):
    """The controlling owner reference."""

    kind: str
    name: str
    uid: str


class Pod(msgspec.Struct, frozen=True, omit_defaults=True):
    """One pod. ``requests`` already hold containers, init containers, overhead and ``pods: 1`` (SCH-60)."""

    uid: str
    namespace: str
    name: str
    created_at: float = 0.0
    labels: dict[str, str] = {}
    requests: dict[str, int] = {}
    node_name: str = ""
    nominated_node: str = ""
    phase: str = "Pending"
    unschedulable: bool = False
    """PodScheduled=False with reason Unschedulable (POD-01)."""
    terminating: bool = False
    owner: Owner | None = None
    node_selector: dict[str, str] = {}
    required_terms: tuple[tuple[Expression, ...], ...] = ()
    """Required node-affinity terms, OR-ed; each an AND of expressions."""
    preferred_terms: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    host_ports: tuple[tuple[str, str, int], ...] = ()
    """(protocol, host ip, port)."""
    volume_claims: tuple[str, ...] = ()
    priority: int = 0
    priority_class: str = ""
    do_not_disrupt: str = ""
    """The value of the do-not-disrupt annotation, or ``true`` for do-not-evict."""
    deletion_cost: int = 0
    """Annotation ``controller.kubernetes.io/pod-deletion-cost``: dearer pods are moved later (DIS-15)."""
    started_at: float = 0.0
    """status.startTime in seconds since the epoch; 0: not started."""
    terminate_at: float = 0.0
    """metadata.deletionTimestamp: when a terminating pod's grace is over; 0: not terminating."""
    grace_seconds: int = 30
    """spec.terminationGracePeriodSeconds (TRM-11)."""
    claims_devices: bool = False
    """It has ``resourceClaims``: dynamic resource allocation decides where it may run (POD-08)."""
    faults: tuple[str, ...] = ()
    """What is wrong with the pod's own text, each naming its field; such a pod is not planned."""

    @property
    def key(self) -> str:
        """``namespace/name``, how logs and the mirror name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_daemon(self) -> bool:
        return self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def is_mirror(self) -> bool:
        return self.owner is not None and self.owner.kind == "Node"

    @property
    def is_terminal(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


def is_provisionable(pod: Pod) -> bool:
    """POD-01: the pod waits for capacity that does not exist."""
    return (
        pod.unschedulable
        and not pod.node_name
        and not pod.nominated_node
        and not pod.terminating
        and not pod.is_terminal
        and not pod.is_daemon
        and not pod.is_mirror
        and not opts_out(pod)
    )


def opts_out(pod: Pod) -> bool:
    """POD-04: the pod refuses machines of any pool, as the autoscaler's own pods do. The first required term decides:
    it is the one that counts before anything is relaxed (SCH-20)."""
    first = pod.required_terms[0] if pod.required_terms else ()
    return any(e.operator == "DoesNotExist" and e.key in _POOL_LABELS for e in first)


def is_reschedulable(pod: Pod) -> bool:
    """POD-09: the pod must find another home when its node goes (active, no daemon, no mirror)."""
    if pod.is_daemon or pod.is_mirror or pod.is_terminal:
        return False
    return not pod.terminating or (pod.owner is not None and pod.owner.kind == "StatefulSet")
