"""What a fresh EKS cluster runs on every node: the daemonsets aws-node and kube-proxy in
kube-system.

Their requests lower what is left for other pods, which a planner must see: aws-node 25m cpu and no
memory, kube-proxy 100m cpu and no memory. Both tolerate everything and have priority
system-node-critical.
"""

from __future__ import annotations

from typing import Any

from local.cluster.errors import ApiError
from local.cluster.store import Store

NAMESPACE = "kube-system"
DAEMON_REQUESTS = {"aws-node": {"cpu": "25m"}, "kube-proxy": {"cpu": "100m"}}


def daemon_set(name: str, requests: dict[str, str]) -> dict[str, Any]:
    """The DaemonSet manifest."""
    labels = {"k8s-app": name}
    container = {
        "name": name,
        "image": f"eks/{name}:v1.32",
        "resources": {"requests": requests},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {"labels": labels},
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


def create_daemon_sets(store: Store) -> None:
    """Create both; those that exist stay as they are."""
    for name, requests in DAEMON_REQUESTS.items():
        try:
            store.create(
                "daemonsets", daemon_set(name, requests), group="apps", namespace=NAMESPACE
            )
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
