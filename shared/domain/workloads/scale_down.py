"""Rules of Cluster Autoscaler about which nodes stay and which pods count, for its users. Off unless asked for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from shared.domain.pools.nodepools import NodePool
from shared.domain.resources import CPU, MEMORY, Resources, add
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod

PREFIX = "cluster-autoscaler.kubernetes.io/"
SAFE_TO_EVICT = PREFIX + "safe-to-evict"
SAFE_LOCAL_VOLUMES = PREFIX + "safe-to-evict-local-volumes"
SCALE_DOWN_DISABLED = PREFIX + "scale-down-disabled"
SYSTEM_NAMESPACE = "kube-system"


class ScaleDownRules(msgspec.Struct, frozen=True):
    """As the operator chose."""

    honors_annotations: bool = False
    """Whether pods and nodes may say by Cluster Autoscaler's annotations that they stay."""
    keeps_local_storage: bool = False
    """Whether a pod with emptyDir or hostPath keeps its node."""
    keeps_system_pods: bool = False
    """Whether a pod of kube-system without a PodDisruptionBudget keeps its node."""
    threshold_percent: int | None = None
    """Nodes that are used as much or more are not consolidated; None: usage does not matter."""
    delay_after_add: float = 0.0
    """Seconds without emptiness and consolidation after a machine was created, for pools that do not say."""
    delay_after_delete: float = 0.0
    delay_after_failure: float = 0.0
    """The same after a disruption was rolled back."""
    unneeded_seconds: float = 0.0
    """``consolidateAfter`` of pools that have the API's default, which is zero."""

    @property
    def has_delay(self) -> bool:
        return bool(self.delay_after_add or self.delay_after_delete or self.delay_after_failure)


KARPENTERS = ScaleDownRules()
"""Karpenter knows none of them."""


def judged(pod: Pod, cutoff: int) -> Pod:
    """The pod, marked as expendable if its priority is below ``cutoff``."""
    return replace(pod, expendable=True) if pod.priority < cutoff else pod


def with_expendable(snapshot: Snapshot, cutoff: int | None) -> Snapshot:
    """The snapshot with its expendable pods marked; None: there are none."""
    if cutoff is None:
        return snapshot
    return replace(snapshot, pods=tuple(judged(pod, cutoff) for pod in snapshot.pods))


def waiting_longer(pool: NodePool, seconds: float) -> NodePool:
    """The pool with ``consolidateAfter`` of so long if its own is the API's default. An API server writes that default
    into every pool, so a zero that somebody wrote looks the same."""
    silent = pool.api.waits_until_consolidatable and pool.consolidate_after_seconds == 0
    return replace(pool, consolidate_after_seconds=seconds) if silent and seconds else pool


def with_unneeded_time(snapshot: Snapshot, seconds: float) -> Snapshot:
    """The snapshot with ``waiting_longer`` pools."""
    if not seconds:
        return snapshot
    pools = tuple(waiting_longer(pool, seconds) for pool in snapshot.pools)
    return replace(snapshot, pools=pools)


def pod_refusal(pod: Pod, rules: ScaleDownRules, *, has_budget: bool) -> str:
    """Why the pod keeps its node; empty: it does not. Daemon pods and pods that end never do."""
    if pod.is_daemon or pod.is_mirror or pod.is_terminal or pod.terminating:
        return ""
    said = pod.safe_to_evict if rules.honors_annotations else ""
    if said == "false":
        return f'pod has "{SAFE_TO_EVICT}" annotation'
    if said == "true":
        return ""
    if rules.keeps_local_storage and pod.keeps_local_data:
        return "pod has local storage"
    if rules.keeps_system_pods and pod.namespace == SYSTEM_NAMESPACE and not has_budget:
        return f"pod of {SYSTEM_NAMESPACE} has no pdb"
    return ""


def utilization_percent(pods: Iterable[Pod], allocatable: Resources) -> int:
    """What the pods, daemons included, request of cpu or memory, whichever is more; rounded down."""
    used = add(*(pod.requests for pod in pods if not pod.is_terminal))
    shares = [100 * used.get(n, 0) // allocatable[n] for n in (CPU, MEMORY) if allocatable.get(n)]
    return max(shares, default=0)
