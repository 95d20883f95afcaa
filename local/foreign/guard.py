"""Detects production clusters of a cloud, on which simulated nodes and broad rights would do harm.

The detection is not complete: a cloud's cluster behind a tunnel shows itself only by its nodes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from local.foreign.kubeconfig import KubeContext

CLOUD_HOSTS = (
    ".eks.amazonaws.com", ".eks.amazonaws.com.cn", ".azmk8s.io", ".gke.goog", ".googleapis.com",
    ".ondigitalocean.com", ".linodelke.net", ".vultr-k8s.com", ".oraclecloud.com", ".containers.cloud.ibm.com",
    ".scw.cloud", ".ovh.net",
)  # fmt: skip
CLOUD_PROGRAMS = (
    "aws", "aws-iam-authenticator", "gke-gcloud-auth-plugin", "gcloud", "kubelogin", "doctl", "oci", "ibmcloud",
)  # fmt: skip
CLOUD_CONTEXTS = ("arn:aws", "gke_", "do-")
CLOUD_PROVIDERS = ("aws", "gce", "azure", "digitalocean", "linode", "oci", "ibm", "openstack")
"""URL schemes of ``spec.providerID``."""


def sign_in_kubeconfig(context: KubeContext) -> str:
    """The reason why the context looks like a cloud's; empty when it does not."""
    host = context.host
    if f".{host}".endswith(CLOUD_HOSTS):
        return f"its server is {host}"
    if _is_public(host):
        return f"its server has the public address {host}"
    program = str((context.user.get("exec") or {}).get("command") or "").rsplit("/", 1)[-1]
    if program in CLOUD_PROGRAMS:
        return f"its credentials come from the program {program}"
    return (
        "its name has the form of a cloud's context"
        if context.name.startswith(CLOUD_CONTEXTS)
        else ""
    )


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False  # a host name, not an address


def sign_in_nodes(nodes: Iterable[dict[str, Any]]) -> str:
    """The reason why the nodes look like a cloud's; empty when they do not. Nodes of the stack are ignored."""
    for node in nodes:
        provider, found, _ = str((node.get("spec") or {}).get("providerID") or "").partition("://")
        if found and provider in CLOUD_PROVIDERS:
            return f"its node {node['metadata']['name']} is a machine of {provider}"
    return ""
