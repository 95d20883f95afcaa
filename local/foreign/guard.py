"""Whether a cluster looks like a real one in a cloud, where nodes that do not exist and broad rights would do harm.

What may go wrong: no sign is a proof. A cluster of a cloud behind a tunnel shows itself only by its nodes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from local.foreign.kubeconfig import Picked

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
"""Schemes of ``spec.providerID``."""


def sign_in_kubeconfig(picked: Picked) -> str:
    """Why the context looks like a cloud's, in words; empty when it does not."""
    host = picked.host
    if f".{host}".endswith(CLOUD_HOSTS):
        return f"its server is {host}"
    if _is_public(host):
        return f"its server has the public address {host}"
    program = str((picked.user.get("exec") or {}).get("command") or "").rsplit("/", 1)[-1]
    if program in CLOUD_PROGRAMS:
        return f"its user comes from the program {program}"
    return "its name is a cloud's" if picked.context.startswith(CLOUD_CONTEXTS) else ""


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False  # a name


def sign_in_nodes(nodes: Iterable[dict[str, Any]]) -> str:
    """The same by nodes that the stack did not make."""
    for node in nodes:
        provider, found, _ = str((node.get("spec") or {}).get("providerID") or "").partition("://")
        if found and provider in CLOUD_PROVIDERS:
            return f"its node {node['metadata']['name']} is a machine of {provider}"
    return ""
