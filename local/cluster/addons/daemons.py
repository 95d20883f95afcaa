"""Creates the objects of add-ons: DaemonSets that tolerate every taint and have the priority system-node-critical."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from local.cluster.addons.catalogue import Addon, CsiDriver, Daemon
from local.cluster.api.errors import ApiError
from local.cluster.storage.store import Store

REMOVES_TAINT = "local.dovetail.sh/removes-taint"
"""Annotation of a pod: the key of the taint that is removed from its node when the pod is ready."""


def daemon_set(daemon: Daemon) -> dict[str, Any]:
    """The DaemonSet manifest."""
    labels = {"k8s-app": daemon.name}
    container: dict[str, Any] = {
        "name": daemon.name,
        "image": f"eks/{daemon.name}:v1.32",
        "resources": {"requests": daemon.requests},
    }
    if daemon.host_port is not None:
        container["ports"] = [{"containerPort": daemon.host_port, "hostPort": daemon.host_port}]
    notes = {REMOVES_TAINT: daemon.removes_taint} if daemon.removes_taint else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": daemon.name, "namespace": daemon.namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {"labels": labels, "annotations": notes},
                "spec": {
                    "containers": [container],
                    "hostNetwork": True,
                    "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists"}],
                    "terminationGracePeriodSeconds": 10,
                },
            },
        },
    }


def csi_driver(driver: CsiDriver) -> dict[str, Any]:
    """The CSIDriver manifest."""
    return {"metadata": {"name": driver.name}, "spec": {"attachRequired": driver.attaches}}


def create_addons(store: Store, addons: Iterable[Addon]) -> None:
    """Create the add-ons' objects; existing objects are not changed."""
    for addon in addons:
        for daemon in addon.daemons:
            _create(store, "namespaces", {"metadata": {"name": daemon.namespace}})
            _create(store, "daemonsets", daemon_set(daemon), "apps", daemon.namespace)
        if addon.driver is not None:
            _create(store, "csidrivers", csi_driver(addon.driver), "storage.k8s.io")


def _create(
    store: Store, plural: str, body: dict[str, Any], group: str = "", namespace: str | None = None
) -> None:
    try:
        store.create(plural, body, group=group, namespace=namespace)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
