"""Records of pods for the planner: requests, constraints, node, and effects on disruption.

The record is stored in Redis, so it holds no environment, commands or secrets.
"""

from __future__ import annotations

import msgspec

from shared.domain import labels as keys
from shared.domain.devices.records import PodClaim
from shared.domain.expressions import Expression, Toleration
from shared.domain.workloads.namespaces import NamespaceSelector

NOBODY = Expression("", "In")
"""The expression of an absent label selector, which selects no pod; an empty one selects every pod."""

DAEMON_SET = "DaemonSet"
"""The kind of owner whose pods run on every node."""
ENDED = ("Succeeded", "Failed")
"""Phases of a pod that runs no more."""
_POOL_LABELS = (keys.NODE_POOL, keys.PROVISIONER_NAME)


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
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
    """Which nodes count as domains (SCH-76): Honor or Ignore the pod's node affinity and tolerations."""


class PreferredTerm(msgspec.Struct, frozen=True, gc=False):
    """One preferred node-affinity term, weight 1..100."""

    weight: int
    expressions: tuple[Expression, ...]


class AffinityTerm(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One pod affinity or anti-affinity term. ``namespaces`` None means the pod's own, () means all (SCH-83)."""

    topology_key: str
    match_labels: dict[str, str] = {}
    expressions: tuple[Expression, ...] = ()
    namespaces: tuple[str, ...] | None = None
    weight: int | None = None
    """None: required. A number: preferred."""
    namespace_selector: NamespaceSelector | None = None
    """Selects namespaces in addition to ``namespaces``, whose None then means no namespace."""


class Owner(msgspec.Struct, frozen=True, gc=False):
    """The controlling owner reference."""

    kind: str
    name: str
    uid: str


class RequestParts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """CPU and memory of a pod by part, as its spec has them: from these follows what it requests with other amounts."""

    containers: dict[str, dict[str, int]] = {}
    """Name of each ordinary container -> its amounts."""
    beside: dict[str, int] = {}
    """Sidecars and overhead, which come on top."""
    least: dict[str, int] = {}
    """What the start of its init containers takes, with overhead."""


class Pod(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
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
    safe_to_evict: str = ""
    """The value of Cluster Autoscaler's annotation: true, false, or empty."""
    keeps_local_data: bool = False
    """Whether it has an emptyDir on disk or a hostPath that no annotation calls safe to lose."""
    expendable: bool = False
    """Whether its priority is below the cut-off. Set in the scheduler's view only."""
    deletion_cost: int = 0
    """Annotation ``controller.kubernetes.io/pod-deletion-cost``: pods with a higher cost are moved later (DIS-15)."""
    started_at: float = 0.0
    """status.startTime in seconds since the epoch; 0: not started."""
    terminate_at: float = 0.0
    """metadata.deletionTimestamp: the end of a terminating pod's grace period; 0: not terminating."""
    grace_seconds: int = 30
    """spec.terminationGracePeriodSeconds (TRM-11)."""
    claims_devices: bool = False
    """Whether it has ``resourceClaims``, so that dynamic resource allocation selects its node (POD-08)."""
    device_claims: tuple[PodClaim, ...] = ()
    gang: str = ""
    """Pods of one gang in a namespace are placed all or none (SCH-114); empty: of none."""
    gang_size: int = 0
    """How many pods the gang has at least; 0: as many as there are."""
    gang_topology: str = ""
    """The label of which the nodes of all pods of the gang have one value, such as the zone; empty: of none."""
    gang_topology_preferred: bool = False
    """True: if no value has room for all of them, the gang is placed without regard to the label."""
    parts: RequestParts | None = None
    """Read where recommendations of a VerticalPodAutoscaler are considered (POD-12), else None."""
    next_requests: dict[str, int] = {}
    """What it will request when it is created anew, of the resources of which that is another amount."""
    consumes: str = ""
    """Name of the ProvisioningRequest whose room it uses (GAT-04); empty: of none."""
    written_terms: tuple[tuple[Expression, ...], ...] | None = None
    """The required terms of its spec where the planner has narrowed ``required_terms``; None: the same."""
    virtual: bool = False
    """It does not exist: room is kept for it (GAT-02). Its owner is the object that keeps it."""
    faults: tuple[str, ...] = ()
    """Faults of the pod's spec, each with its field; a pod with faults is not planned."""

    @property
    def key(self) -> str:
        """``namespace/name``, as in logs and the mirror."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_daemon(self) -> bool:
        return self.owner is not None and self.owner.kind == DAEMON_SET

    @property
    def is_mirror(self) -> bool:
        return self.owner is not None and self.owner.kind == "Node"

    @property
    def is_terminal(self) -> bool:
        return self.phase in ENDED

    def narrowed_to(self, terms: tuple[tuple[Expression, ...], ...]) -> Pod:
        """The pod with these required terms. kube-scheduler knows nothing of them, and counts spread pods by those of
        the spec."""
        if terms == self.required_terms:
            return self
        written = self.required_terms if self.written_terms is None else self.written_terms
        return msgspec.structs.replace(self, required_terms=terms, written_terms=written)


def is_provisionable(pod: Pod) -> bool:
    """POD-01: whether the pod waits for capacity that does not exist."""
    return (
        pod.unschedulable
        and not pod.node_name
        and not pod.nominated_node
        and not pod.terminating
        and not pod.is_terminal
        and (pod.owner is None or not (pod.is_daemon or pod.is_mirror))
        and not pod.expendable
        and not (pod.required_terms and opts_out(pod))
    )


def why_not_provisionable(pod: Pod) -> str:
    """Why the pod gets no machine, one clause with its fix where there is one; empty: it waits for one."""
    reasons = (
        (pod.terminating or pod.is_terminal, "it is ending"),
        (pod.is_daemon, "it belongs to a DaemonSet, for whose pods no node is bought"),
        (pod.is_mirror, "it belongs to a node"),
        (
            bool(pod.nominated_node),
            f"a place is kept for it on {pod.nominated_node} (status.nominatedNodeName): it starts there once "
            "the node is initialized, its startup taints are gone and lower priorities have made room",
        ),
        (
            pod.expendable,
            f"its priority {pod.priority} is below EXPENDABLE_PODS_PRIORITY_CUTOFF; it runs where there is room",
        ),
        (
            bool(pod.required_terms) and opts_out(pod),
            "its node affinity excludes the nodes of all pools",
        ),
        (
            not pod.unschedulable,
            "kube-scheduler has not refused it: see its condition PodScheduled and spec.schedulingGates",
        ),
    )
    return next((text for holds, text in reasons if holds), "")


def opts_out(pod: Pod) -> bool:
    """POD-04: whether the pod excludes machines of any pool, as the autoscaler's own pods do. The first required term
    decides, because it applies before any relaxation (SCH-20)."""
    first = pod.required_terms[0] if pod.required_terms else ()
    return any(e.operator == "DoesNotExist" and e.key in _POOL_LABELS for e in first)


def is_reschedulable(pod: Pod) -> bool:
    """POD-09: whether the pod needs another node when its node terminates (active, no daemon pod, no mirror pod)."""
    if pod.is_daemon or pod.is_mirror or pod.is_terminal or pod.expendable:
        return False
    return not pod.terminating or (pod.owner is not None and pod.owner.kind == "StatefulSet")
