"""Rules of Cluster Autoscaler about which nodes stay and which pods count, for its users. Off unless asked for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from shared.domain.resources import CPU, MEMORY, Resources, add
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


KARPENTERS = ScaleDownRules()
"""Karpenter knows none of them."""


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
