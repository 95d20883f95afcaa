"""DaemonSets keep one pod on every eligible node. The scheduler binds it.

Each pod names its node by required node affinity on ``metadata.name`` and has the tolerations of Kubernetes 1.32's
daemon controller, so it starts on nodes that are cordoned or under pressure. An outdated pod is deleted when fewer than
``maxUnavailable`` are unavailable (RollingUpdate). Surge is not modelled.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from local.cluster.control_plane.informers import Informers, Key, Obj, key_of
from local.cluster.control_plane.supervision import TimeSlice
from local.cluster.controllers.deployment import share_of
from local.cluster.controllers.pod_templates import (
    is_active,
    is_ready,
    phase,
    pod_from_template,
    suffix,
    template_hash,
)
from local.cluster.controllers.workqueue import WorkloadController
from local.cluster.scheduling.selectors import NodePredicate, node_predicate, untolerated
from local.cluster.scheduling.shapes import REQUIRED

HASH_LABEL = "controller-revision-hash"


def _toleration(name: str, effect: str) -> dict[str, str]:
    return {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}


DAEMON_TOLERATIONS = (
    _toleration("not-ready", "NoExecute"),
    _toleration("unreachable", "NoExecute"),
    _toleration("disk-pressure", "NoSchedule"),
    _toleration("memory-pressure", "NoSchedule"),
    _toleration("pid-pressure", "NoSchedule"),
    _toleration("unschedulable", "NoSchedule"),
)


def daemon_spec(template_spec: dict[str, Any]) -> dict[str, Any]:
    """The pod spec for every node, without the node's name."""
    tolerations = [*(template_spec.get("tolerations") or ())]
    tolerations += [t for t in DAEMON_TOLERATIONS if t not in tolerations]
    if template_spec.get("hostNetwork"):
        tolerations.append(_toleration("network-unavailable", "NoSchedule"))
    return {**template_spec, "tolerations": tolerations}


def pinned(spec: dict[str, Any], node: str) -> dict[str, Any]:
    """``spec`` bound to one node by name (ReplaceDaemonSetPodNodeNameNodeAffinity)."""
    affinity = dict(spec.get("affinity") or {})
    on_nodes = dict(affinity.get("nodeAffinity") or {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = (on_nodes.get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    pinned_terms = [{**term, "matchFields": [field]} for term in terms]
    on_nodes[REQUIRED] = {"nodeSelectorTerms": pinned_terms}
    return {**spec, "affinity": {**affinity, "nodeAffinity": on_nodes}}


def pinned_node(pod: Obj) -> str:
    """The node that a daemon pod is created for."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def wants_node(spec: dict[str, Any], matches: NodePredicate, node: Obj) -> tuple[bool, bool]:
    """(may start there, may stay there): NoSchedule taints prevent a start, only NoExecute taints evict."""
    labels = node["metadata"].get("labels") or {}
    if not matches(labels, node["metadata"]["name"]):
        return False, False
    taints, tolerations = (node.get("spec") or {}).get("taints") or [], spec["tolerations"]
    stays = untolerated(taints, tolerations, ("NoExecute",)) is None
    return stays and untolerated(taints, tolerations) is None, stays


class DaemonSetController(WorkloadController):
    """Keeps one pod per node for each DaemonSet."""

    name, plural, group = "daemonset", "daemonsets", "apps"
    kind = "DaemonSet"

    def register(self, informers: Informers) -> None:
        """Watch nodes too."""
        super().register(informers)
        informers.on("nodes", self._on_node)

    def _on_node(self, event_type: str, obj: Obj, old: Obj | None) -> None:
        if event_type == "MODIFIED" and old is not None:
            same_spec = old.get("spec") == obj.get("spec")
            if same_spec and old["metadata"].get("labels") == obj["metadata"].get("labels"):
                return
        for daemon_set in self._store.list(self.plural, group=self.group):
            self.queue.add(key_of(daemon_set))

    async def reconcile(self, key: Key) -> float | None:
        """Create missing pods; delete misplaced, finished or outdated ones."""
        daemon_set = self.find(key)
        if daemon_set is None or daemon_set["metadata"].get("deletionTimestamp"):
            return None
        spec = daemon_spec(daemon_set["spec"]["template"].get("spec") or {})
        matches = node_predicate(spec)
        by_node: dict[str, list[Obj]] = defaultdict(list)
        for pod in self._pods.members(daemon_set["metadata"]["uid"]):
            by_node[pinned_node(pod)].append(pod)
        desired, turn = 0, TimeSlice()
        for node in self._store.list("nodes"):
            name = node["metadata"]["name"]
            starts, stays = wants_node(spec, matches, node)
            desired += starts
            self._settle(daemon_set, spec, name, by_node[name], starts, stays)
            await turn.share()
        self._replace_outdated(daemon_set, desired)
        self._write_status(key, desired)
        return None

    def _settle(
        self,
        daemon_set: Obj,
        spec: dict[str, Any],
        node: str,
        pods: list[Obj],
        starts: bool,
        stays: bool,
    ) -> None:
        finished = [pod for pod in pods if phase(pod) in ("Succeeded", "Failed")]
        active = [pod for pod in pods if is_active(pod)]
        surplus = active[1:] if stays else active
        for pod in finished + surplus:
            self._delete(pod)
        if starts and not pods:
            self._create(daemon_set, spec, node)

    def _create(self, daemon_set: Obj, spec: dict[str, Any], node: str) -> None:
        metadata = daemon_set["metadata"]
        pod = pod_from_template(daemon_set, f"{metadata['name']}-{suffix(self._rng)}")
        pod["spec"] = pinned(spec, node)
        pod["metadata"]["labels"][HASH_LABEL] = template_hash(daemon_set["spec"]["template"])
        self._pods.add(self._store.create("pods", pod, namespace=metadata["namespace"]))

    def _delete(self, pod: Obj) -> None:
        if not pod["metadata"].get("deletionTimestamp"):
            self.delete("pods", pod)

    def _replace_outdated(self, daemon_set: Obj, desired: int) -> None:
        strategy = daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        current = template_hash(daemon_set["spec"]["template"])
        pods = self._pods.members(daemon_set["metadata"]["uid"])
        outdated = [
            pod
            for pod in pods
            if is_active(pod) and (pod["metadata"].get("labels") or {}).get(HASH_LABEL) != current
        ]
        raw = (strategy.get("rollingUpdate") or {}).get("maxUnavailable")
        allowed = max(share_of(raw, desired, default="1", round_up=True) if raw else 1, 1)
        ready = sum(is_ready(pod) and is_active(pod) for pod in pods)
        spare = max(allowed - max(desired - ready, 0), 0)
        broken = [pod for pod in outdated if not is_ready(pod)]
        healthy = [pod for pod in outdated if is_ready(pod)]
        for pod in broken + healthy[:spare]:
            self._delete(pod)

    def _write_status(self, key: Key, desired: int) -> None:
        daemon_set = self.find(key)
        if daemon_set is None:
            return
        current = template_hash(daemon_set["spec"]["template"])
        pods = [p for p in self._pods.members(daemon_set["metadata"]["uid"]) if is_active(p)]
        ready = sum(is_ready(pod) for pod in pods)
        status = {
            **(daemon_set.get("status") or {}),
            "desiredNumberScheduled": desired,
            "currentNumberScheduled": len(pods),
            "numberReady": ready,
            "numberAvailable": ready,
            "numberUnavailable": max(desired - ready, 0),
            "numberMisscheduled": 0,
            "updatedNumberScheduled": sum(
                (p["metadata"].get("labels") or {}).get(HASH_LABEL) == current for p in pods
            ),
            "observedGeneration": daemon_set["metadata"].get("generation", 1),
        }
        self.set_status(daemon_set, status)
