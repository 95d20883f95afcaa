"""Removes start-up taints from nodes: an annotation of an agent's pod names the taint."""

from __future__ import annotations

from local.cluster.addons.daemons import REMOVES_TAINT
from local.cluster.control_plane.informers import Informers, Key, KeyIndex, Obj, key_of
from local.cluster.controllers.pod_templates import is_active, is_ready
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.store import Store


def removed_taint(pod: Obj) -> str:
    """The key of the taint that is removed when the pod is ready; empty for most pods."""
    return str((pod["metadata"].get("annotations") or {}).get(REMOVES_TAINT, ""))


class StartupTaintController(Controller):
    """Removes the taints that ready agent pods name. Keys are nodes."""

    name, plural = "startup-taints", "nodes"

    def __init__(self, store: Store, pods_by_node: KeyIndex) -> None:
        super().__init__(store)
        self._pods = pods_by_node

    def register(self, informers: Informers) -> None:
        """Watch agents, and nodes, because a taint may be added after its agent is ready."""
        informers.on("pods", self._on_pod)
        informers.on(self.plural, self._on_node)

    def _on_pod(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if event_type != "DELETED" and obj["spec"].get("nodeName") and removed_taint(obj):
            self.queue.add(Key("", obj["spec"]["nodeName"]))

    def _on_node(self, event_type: str, obj: Obj, old: Obj | None) -> None:
        taints = obj["spec"].get("taints")
        if (
            event_type == "MODIFIED"
            and taints
            and taints != (old or {}).get("spec", {}).get("taints")
        ):
            self.queue.add(key_of(obj))

    async def reconcile(self, key: Key) -> float | None:
        """Remove the taints of the ready agents."""
        node = self.find(key)
        taints = (node["spec"].get("taints") or []) if node else []
        gone = {
            removed_taint(pod)
            for pod in (self._pods.members(key.name) if taints else ())
            if is_active(pod) and is_ready(pod)
        }
        kept = [taint for taint in taints if taint["key"] not in gone]
        if node is not None and kept != taints:
            self._store.patch("nodes", key.name, {"spec": {"taints": kept}})
        return None
