"""Amazon Linux 2023: a NodeConfig document for nodeadm (LCH-32). It is the last document, so it takes precedence when
nodeadm merges it with the user's."""

from __future__ import annotations

from typing import Any

import yaml

from shared.cloud.user_data import mime
from shared.cloud.user_data.bootstrap import Bootstrap, Taint
from shared.cloud.user_data.kubelet_flags import label_list

_NOT_CONFIGURATION = frozenset({"containerRuntime"})
"""Settings of a Provisioner that KubeletConfiguration does not have; nodeadm would refuse to start with them."""


def render(bootstrap: Bootstrap) -> str:
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
