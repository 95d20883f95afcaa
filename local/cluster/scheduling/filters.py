"""Filters: the nodes that can run a pod, and the reasons why others cannot, with kube-scheduler's texts.

Order and texts follow Kubernetes 1.32's default profile: NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts,
NodeResourcesFit, VolumeBinding, PodTopologySpread, InterPodAffinity; a node counts under the first plugin that refuses
it. Verdicts that depend only on the node are cached per shape. Preemption is in ``preemption.py``, volumes are in
``local/cluster/volumes``, devices in ``devices.py``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from local.cluster.scheduling.selectors import tolerates, untolerated
from local.cluster.scheduling.shapes import AffinityTerm, PodInfo, PodShape, SpreadConstraint
from local.cluster.scheduling.state import ClusterState, NodeState

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
POD_AFFINITY = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
PREEMPTIBLE = frozenset({SPREAD, POD_ANTI_AFFINITY, EXISTING_ANTI_AFFINITY})
"""Reasons of the pod checks that the removal of other pods may resolve."""
CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

NodeCheck = Callable[[NodeState], str]
"""Returns the reason for a refusal, empty when the node passes."""


@dataclass(slots=True)
class Evaluation:
    """The nodes that fit, and the number of nodes that each reason refused."""

    feasible: list[NodeState]
    reasons: Counter[str]
    nodes: int
    helpless: int = 0
    """Nodes where preemption could not help either."""
    whole: str = ""
    """A reason that applies to all nodes."""

    def message(self, preemption: str = "") -> str:
        """kube-scheduler's FitError text; ``preemption`` is the reason why no preemption was tried."""
        if self.nodes == 0:
            return "no nodes available to schedule pods"
        head = f"0/{self.nodes} nodes are available: "
        parts = self.whole or ", ".join(
            sorted(f"{count} {reason}" for reason, count in self.reasons.items())
        )
        if preemption:
            return f"{head}{parts}. preemption: {preemption}."
        victims = self.nodes - self.helpless
        counted = (
            (self.helpless, "Preemption is not helpful for scheduling"),
            (victims, "No preemption victims found for incoming pod"),
        )
        refusals_text = ", ".join(sorted(f"{count} {text}" for count, text in counted if count))
        return f"{head}{parts}. preemption: {head}{refusals_text}."


def node_verdict(shape: PodShape, node: NodeState) -> str:
    """The reason why this node can never run the shape in its current form; empty when it could."""
    cached = shape.node_verdicts.get(node.name)
    if cached is not None and cached[0] == node.version:
        return cached[1]
    verdict = _fixed_refusal(shape, node)
    shape.node_verdicts[node.name] = (node.version, verdict)
    return verdict


def _fixed_refusal(shape: PodShape, node: NodeState) -> str:
    if node.unschedulable and not any(tolerates(t, CORDON_TAINT) for t in shape.tolerations):
        return UNSCHEDULABLE
    taint = untolerated(node.taints, shape.tolerations)
    if taint is not None:
        return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
    return "" if shape.node_match(node.labels, node.name) else AFFINITY


def insufficient(pod: PodInfo, node: NodeState, state: ClusterState) -> list[str]:
    """One reason for each resource that the node lacks; pods nominated to the node count as placed."""
    held = state.nominated.get(node.name)
    allocatable, requested = node.allocatable, node.requested
    reasons: list[str] = []
    for resource, amount in pod.shape.nonzero_requests:
        free = allocatable.get(resource, 0) - requested.get(resource, 0)
        if held:
            free -= _reserved(resource, pod, held.values())
        if amount > free:
            reasons.append("Too many pods" if resource == "pods" else f"Insufficient {resource}")
    return reasons


def _reserved(resource: str, pod: PodInfo, nominated: Iterable[PodInfo]) -> int:
    """The amount reserved for other nominated pods of at least the same priority."""
    return sum(
        other.shape.requests.get(resource, 0)
        for other in nominated
        if other.key != pod.key and other.shape.priority >= pod.shape.priority
    )


def ports_clash(shape: PodShape, node: NodeState) -> bool:
    """Whether a host port is in use; 0.0.0.0 conflicts with every address."""
    for address, protocol, port in shape.ports:
        for (other_address, other_protocol, other_port), count in node.ports.items():
            same = count > 0 and (protocol, port) == (other_protocol, other_port)
            if same and ("0.0.0.0" in (address, other_address) or address == other_address):
                return True
    return False


def evaluate(
    pod: PodInfo, state: ClusterState, candidates: list[NodeState], *, enough: int
) -> Evaluation:
    """Filter ``candidates`` (all existing nodes, in the order to try); stop after ``enough`` that fit."""
    shape, nodes = pod.shape, len(candidates)
    if whole := _refusal(shape, state):
        return Evaluation([], Counter(), nodes, helpless=nodes, whole=whole)
    result = Evaluation([], Counter(), nodes)
    if shape.node_names is not None:
        named = [node for node in candidates if node.name in shape.node_names]
        result.helpless = nodes - len(named)
        if result.helpless:
            result.reasons[AFFINITY] = result.helpless
        candidates = named
    checks = pod_checks(shape, state)
    for node in candidates:
        reasons, helpless = refusals(pod, node, state, checks)
        if reasons:
            result.helpless += helpless
            result.reasons.update(reasons)
            continue
        result.feasible.append(node)
        if len(result.feasible) >= enough:
            break
    return result


def _refusal(shape: PodShape, state: ClusterState) -> str:
    """Why the pod's claims keep it from every node; empty when they do not."""
    whole = state.volumes.refusal(shape) if shape.claims else ""
    return whole or (state.devices.refusal(shape) if shape.device_claims else "")


def refusals(
    pod: PodInfo, node: NodeState, state: ClusterState, checks: list[NodeCheck]
) -> tuple[list[str], bool]:
    """The reasons why the node refuses the pod (empty when it fits), and whether preemption cannot resolve them."""
    verdict = node_verdict(pod.shape, node)
    if verdict:
        return [verdict], True
    if pod.shape.ports and ports_clash(pod.shape, node):
        return [PORTS], False
    reasons = insufficient(pod, node, state)
    if reasons:
        return reasons, any(
            requested > node.allocatable.get(resource, 0)
            for resource, requested in pod.shape.nonzero_requests
        )
    for check in checks:
        reason = check(node)
        if reason:
            return [reason], reason not in PREEMPTIBLE
    return [], False


def pod_checks(shape: PodShape, state: ClusterState) -> list[NodeCheck]:
    """Checks that depend on the placement of other pods. Valid until the next placement."""
    hard = [constraint for constraint in shape.spread if constraint.hard]
    checks = list(state.volumes.checks(shape)) if shape.claims else []
    checks += state.devices.checks(shape) if shape.device_claims else []
    checks += [_spread_check(shape, state, constraint, hard) for constraint in hard]
    checks += _existing_anti_affinity(shape, state)
    checks += [_anti_affinity(shape, state, term) for term in shape.anti_affinity]
    if shape.affinity:
        checks.append(_affinity(shape, state))
    return checks


def domain_counts(
    state: ClusterState, shape: PodShape, term: AffinityTerm | SpreadConstraint
) -> dict[str, int]:
    """Matching pods per value of the topology label, only values with matches."""
    counts: dict[str, int] = defaultdict(int)
    for name, count in state.counter(shape, term.selector).per_node.items():
        node = state.nodes.get(name)
        if count > 0 and node is not None and term.topology_key in node.labels:
            counts[node.labels[term.topology_key]] += count
    return counts


def spread_counts(
    shape: PodShape,
    state: ClusterState,
    constraint: SpreadConstraint,
    all_constraints: Iterable[SpreadConstraint],
) -> dict[str, int]:
    """Matching pods in every domain that counts for the constraint, empty domains included."""
    keys = [c.topology_key for c in all_constraints]
    per_node = state.counter(shape, constraint.selector).per_node
    counts: dict[str, int] = {}
    for node in state.nodes.values():
        if not node.exists or any(key not in node.labels for key in keys):
            continue
        if constraint.honor_affinity and not shape.node_match(node.labels, node.name):
            continue
        if constraint.honor_taints and untolerated(node.taints, shape.tolerations):
            continue
        domain = node.labels[constraint.topology_key]
        counts[domain] = counts.get(domain, 0) + per_node.get(node.name, 0)
    return counts


def _spread_check(
    shape: PodShape,
    state: ClusterState,
    constraint: SpreadConstraint,
    hard: list[SpreadConstraint],
) -> NodeCheck:
    counts = spread_counts(shape, state, constraint, hard)
    counter = state.counter(shape, constraint.selector)
    itself = int(counter.matches(shape, state.namespaces))
    lowest = min(counts.values(), default=0)
    if len(counts) < constraint.min_domains:
        lowest = 0

    def check(node: NodeState) -> str:
        domain = node.labels.get(constraint.topology_key)
        if domain is None:
            return SPREAD_LABEL
        skew = counts.get(domain, 0) + itself - lowest
        return SPREAD if skew > constraint.max_skew else ""

    return check


def _existing_anti_affinity(shape: PodShape, state: ClusterState) -> list[NodeCheck]:
    forbidden: set[tuple[str, str]] = set()
    for term, holders in state.anti_terms.values():
        if not term.selector.matches(shape, state.namespaces):
            continue
        for name in holders:
            value = state.nodes[name].labels.get(term.topology_key)
            if value is not None:
                forbidden.add((term.topology_key, value))
    if not forbidden:
        return []
    keys = {key for key, _ in forbidden}

    def check(node: NodeState) -> str:
        hit = any((key, node.labels.get(key)) in forbidden for key in keys)
        return EXISTING_ANTI_AFFINITY if hit else ""

    return [check]


def _anti_affinity(shape: PodShape, state: ClusterState, term: AffinityTerm) -> NodeCheck:
    taken = domain_counts(state, shape, term)
    key = term.topology_key
    return lambda node: POD_ANTI_AFFINITY if node.labels.get(key) in taken else ""


def _affinity(shape: PodShape, state: ClusterState) -> NodeCheck:
    domains = [(term.topology_key, domain_counts(state, shape, term)) for term in shape.affinity]
    alone = not any(counts for _, counts in domains) and all(
        term.selector.matches(shape, state.namespaces) for term in shape.affinity
    )

    def check(node: NodeState) -> str:
        for key, counts in domains:
            value = node.labels.get(key)
            if value is None or not (alone or value in counts):
                return POD_AFFINITY
        return ""

    return check
