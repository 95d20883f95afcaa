"""A control plane over a real store in this process, fast, and the objects tests put into it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from local.cluster.control_plane.running import ControlPlane
from local.cluster.settings import ClusterSettings
from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from tests.support.waiting import wait_until

Obj = dict[str, Any]
FAST: dict[str, Any] = {
    "pod_start_seconds": 0.02,
    "pod_stop_seconds": 0.02,
    "kubelet_poll_seconds": 0.02,
    "boot_seconds": 0.0,
    "ready_seconds": 0.05,
    "node_monitor_grace_seconds": 40.0,
    "fixed_nodes": 0,
    "addons": "none",
}


@contextlib.asynccontextmanager
async def control_plane(**settings: Any) -> AsyncIterator[LocalCluster]:
    """A running control plane; ``settings`` go over ``FAST``."""
    clock, rng = SystemClock(), random.Random(7)
    store = Store(clock, rng)
    plane = ControlPlane(store, ClusterSettings(**{**FAST, **settings}), clock, rng)
    plane.create_first_objects()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(plane.run())
        try:
            yield LocalCluster(store)
        finally:
            running.cancel()


class LocalCluster:
    """Short ways to the store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def node(self, name: str, *, cpu: str = "4", **changes: Any) -> Obj:
        """Create a ready node with a kubelet. ``changes``: labels, taints, memory, pods, kubelet, finalizers."""
        resources = {
            "cpu": cpu,
            "memory": changes.get("memory", "16Gi"),
            "pods": changes.get("pods", "110"),
        }
        simulated = (
            {"local.dovetail.sh/kubelet": "simulated"} if changes.get("kubelet", True) else {}
        )
        labels = {"kubernetes.io/hostname": name, **changes.get("labels", {})}
        return self.store.create(
            "nodes",
            {
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": simulated,
                    "finalizers": changes.get("finalizers", []),
                },
                "spec": {"taints": changes.get("taints", [])},
                "status": {
                    "allocatable": resources,
                    "capacity": resources,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )

    def pod(self, name: str, *, cpu: str = "100m", **changes: Any) -> Obj:
        """Create a pod. ``changes``: labels, annotations, spec (merged in), namespace, requests, owners."""
        requests = changes.get("requests", {"cpu": cpu})
        return self.store.create(
            "pods",
            {
                "metadata": {
                    "name": name,
                    "labels": changes.get("labels", {}),
                    "annotations": changes.get("annotations", {}),
                    "ownerReferences": changes.get("owners", []),
                },
                "spec": {
                    "containers": [
                        {"name": "main", "image": "app", "resources": {"requests": requests}}
                    ],
                    **changes.get("spec", {}),
                },
            },
            namespace=changes.get("namespace", "default"),
        )

    def deployment(self, name: str, replicas: int, *, cpu: str = "100m", **changes: Any) -> Obj:
        """Create a deployment. ``changes``: pod_spec, spec, labels (of the pods)."""
        labels = {"app": name, **changes.get("labels", {})}
        return self.store.create(
            "deployments",
            {
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "template": pod_template(labels, cpu, changes.get("pod_spec", {})),
                    **changes.get("spec", {}),
                },
            },
            group="apps",
            namespace="default",
        )

    def find_pod(self, name: str, namespace: str = "default") -> Obj:
        """The pod now. Raises KeyError when it is gone."""
        pod = self.store.find("pods", name, namespace=namespace)
        if pod is None:
            raise KeyError(name)
        return pod

    def pods(self, selector: str | None = None, *, phase: str | None = None) -> list[Obj]:
        """Pods of the default namespace that are not being deleted."""
        found = self.store.list("pods", namespace="default", label_selector=selector)
        alive = [p for p in found if not p["metadata"].get("deletionTimestamp")]
        return [p for p in alive if phase is None or p["status"].get("phase") == phase]

    def node_of(self, name: str) -> str | None:
        """Where a pod of the default namespace is bound."""
        bound: str | None = self.find_pod(name)["spec"].get("nodeName")
        return bound

    async def bound(self, name: str) -> str:
        """Wait for a binding; the node's name."""
        found = await wait_until(
            lambda: self.node_of(name),
            f"{name} is bound",
            show=lambda: condition(self.find_pod(name)),
        )
        assert found is not None
        return found

    async def refused(self, name: str, saying: str = "") -> str:
        """Wait for PodScheduled=False with a message that contains ``saying``: the scheduler may have looked before it
        knew of all nodes. The message.
        """

        def told() -> str:
            found = condition(self.find_pod(name))
            message = str(found.get("message", ""))
            return message if found.get("status") == "False" and saying in message else ""

        return await wait_until(
            told, f"{name} is refused, {saying!r}", show=lambda: condition(self.find_pod(name))
        )

    async def running(self, count: int, selector: str | None = None) -> None:
        """Wait until exactly ``count`` pods exist and all run."""

        def all_run() -> bool:
            return len(self.pods(selector)) == len(self.pods(selector, phase="Running")) == count

        await wait_until(all_run, f"{count} pods run")


def pod_template(labels: dict[str, str], cpu: str, spec: Obj | None = None) -> Obj:
    """A pod template with one container."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container], **(spec or {})}}


def condition(obj: Obj, condition_type: str = "PodScheduled") -> Obj:
    """The object's condition of that type, empty when it has none."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == condition_type), {})
