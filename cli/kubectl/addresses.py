"""The addresses of an installation in a cluster, as the variables that commands read.

A service's address is ``service://NAMESPACE/NAME:PORT``: reached through the API server of ``KUBECONFIG`` and
``DOVETAIL_CONTEXT``, with that kubeconfig's credentials.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SCHEME = "service://"
PORT = "status"
NAMESPACE = "dovetail"
SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption", "console")
IN_CLUSTER = "DOVETAIL_IN_CLUSTER"
"""Set by the plugin: commands address this cluster, whatever stack runs in the current directory."""
CONTEXT = "DOVETAIL_CONTEXT"
"""A context of the kubeconfig instead of its current one."""
SYSTEM_NAMESPACE = "DOVETAIL_NAMESPACE"
USUAL_KUBECONFIG = Path("~/.kube/config")


def cluster_variables(
    shell: Mapping[str, str], kubeconfig: str = "", context: str = "", namespace: str = ""
) -> dict[str, str]:
    """The shell's variables, and the addresses of the cluster's services. An address that the shell names stays."""
    place = namespace or shell.get(SYSTEM_NAMESPACE) or NAMESPACE
    usual = str(USUAL_KUBECONFIG.expanduser())
    found = {
        "KUBECONFIG": kubeconfig or shell.get("KUBECONFIG") or usual,
        CONTEXT: context or shell.get(CONTEXT, ""),
        SYSTEM_NAMESPACE: place,
        IN_CLUSTER: "1",
    }
    urls = {
        f"DOVETAIL_{name.upper()}_URL": f"{SCHEME}{place}/dovetail-{name}:{PORT}"
        for name in SERVICES
    }
    return {**urls, **shell, **found}


def address_cluster(kubeconfig: str = "", context: str = "", namespace: str = "") -> None:
    """Make this process address the cluster. For the entry point of a program."""
    os.environ.update(cluster_variables(os.environ, kubeconfig, context, namespace))
