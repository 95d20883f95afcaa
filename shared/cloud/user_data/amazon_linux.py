"""Amazon Linux 2 and Ubuntu: a shell part that calls EKS's bootstrap.sh (LCH-30, LCH-31). Amazon Linux 2023: a
NodeConfig document for nodeadm (LCH-32), the last one, so it takes precedence when nodeadm merges it with the user's.

What may go wrong: bootstrap.sh writes the kubelet's arguments into a systemd unit inside single quotes, so quoting
cannot protect a value that contains one. ``checking`` refuses such values.
"""

from __future__ import annotations

import shlex
from typing import Any

import yaml

from shared.cloud.user_data import kubelet_flags, mime
from shared.cloud.user_data.bootstrap import Bootstrap, Taint
from shared.cloud.user_data.kubelet_flags import label_list

_LOG = "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1"


def al2(bootstrap: Bootstrap) -> str:
    """The user data as a MIME document (LCH-30). Raises InvalidObject."""
    words = " ".join(shlex.quote(word) for word in _command(bootstrap))
    script = f"#!/bin/bash -xe\n{_LOG}\n{words}\n"
    return mime.document(bootstrap.user_data, mime.shell_part(script))


def _command(bootstrap: Bootstrap) -> list[str]:
    words = ["/etc/eks/bootstrap.sh", bootstrap.cluster_name]
    words += ["--apiserver-endpoint", bootstrap.endpoint, "--b64-cluster-ca", bootstrap.ca_bundle]
    if bootstrap.dns_addresses:
        words += ["--dns-cluster-ip", bootstrap.dns_addresses[0]]
    if bootstrap.is_ipv6:
        words += ["--ip-family", "ipv6"]
    if bootstrap.kubelet.get("containerRuntime"):
        words += ["--container-runtime", str(bootstrap.kubelet["containerRuntime"])]
    words += ["--use-max-pods", "false"]
    if bootstrap.raid0_instance_store:
        words += ["--local-disks", "raid0"]
    arguments = kubelet_flags.text(bootstrap)
    return [*words, "--kubelet-extra-args", arguments] if arguments else words


_NOT_CONFIGURATION = frozenset({"containerRuntime"})
"""Settings of a Provisioner that KubeletConfiguration does not have; nodeadm would refuse to start with them."""


def al2023(bootstrap: Bootstrap) -> str:
    """The user data as a MIME document (LCH-32). Raises InvalidObject."""
    config = yaml.safe_dump(_node_config(bootstrap), sort_keys=False)
    return mime.document(bootstrap.user_data, mime.node_config_part(config))


def _node_config(bootstrap: Bootstrap) -> dict[str, Any]:
    labels = [f"--node-labels={label_list(bootstrap.labels)}"] if bootstrap.labels else []
    spec: dict[str, Any] = {
        "cluster": {
            "name": bootstrap.cluster_name,
            "apiServerEndpoint": bootstrap.endpoint,
            "certificateAuthority": bootstrap.ca_bundle,
            "cidr": bootstrap.service_cidr,
        },
        "kubelet": {"config": _kubelet_config(bootstrap), "flags": labels},
    }
    if bootstrap.raid0_instance_store:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def _kubelet_config(bootstrap: Bootstrap) -> dict[str, Any]:
    config: dict[str, Any] = {
        name: value
        for name, value in bootstrap.kubelet.items()
        if value is not None and name not in _NOT_CONFIGURATION
    }
    if bootstrap.max_pods is not None:
        config["maxPods"] = bootstrap.max_pods
    if bootstrap.dns_addresses:
        config["clusterDNS"] = bootstrap.dns_addresses
    if bootstrap.taints:
        config["registerWithTaints"] = [_taint_object(taint) for taint in bootstrap.taints]
    return config


def _taint_object(taint: Taint) -> dict[str, str]:
    key, value, effect = taint
    return {"key": key, **({"value": value} if value else {}), "effect": effect}
