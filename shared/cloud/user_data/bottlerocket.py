"""Bottlerocket: TOML settings, the user's merged with ours, and ours win (LCH-33).

Labels are merged one by one. Taints, reservations and thresholds that we set replace the user's as a whole: machines
are planned with ours, and an entry more would make them smaller, or repel pods, than was planned.

What may go wrong: user data that is no TOML, or where a table of ours is something else: ``InvalidObject``.
Bottlerocket knows no podsPerCore, which is left out (IT-13 does not count it either).
"""

from __future__ import annotations

import tomllib
from typing import Any

from shared.cloud.user_data.bootstrap import USER_DATA_FIELD, Bootstrap
from shared.cloud.user_data.toml_text import to_toml
from shared.errors import InvalidObject

_MAPS = {
    "kubeReserved": "kube-reserved",
    "systemReserved": "system-reserved",
    "evictionHard": "eviction-hard",
    "evictionSoft": "eviction-soft",
    "evictionSoftGracePeriod": "eviction-soft-grace-period",
}
_PERCENTAGES = {
    "imageGCHighThresholdPercent": "image-gc-high-threshold-percent",
    "imageGCLowThresholdPercent": "image-gc-low-threshold-percent",
}
_SAME = {
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "cpuCFSQuota": "cpu-cfs-quota-enforced",
}
_DEEPEST_KEY = 64
"""Parts of a dotted key: the time to read one grows with their square."""
_MOUNT = "000-mount-instance-storage"
_DISK = ["apiclient", "ephemeral-storage"]
_DIRECTORIES = ["/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]


def render(bootstrap: Bootstrap) -> str:
    """LCH-33: a TOML document. Raises InvalidObject."""
    if any(key.count(".") >= _DEEPEST_KEY for key in _keys(bootstrap.user_data)):
        raise _refused("nests its tables too deep")
    try:
        found = tomllib.loads(bootstrap.user_data)
        _merge(found, bootstrap)
        return to_toml(found)
    except RecursionError:
        raise _refused("nests its tables too deep") from None
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        raise _refused(f"is not TOML, which Bottlerocket needs: {error}") from None


def _keys(text: str) -> list[str]:
    """All that may be a key: what stands before ``=``, and table headers."""
    headers = [line for line in text.splitlines() if line.lstrip().startswith("[")]
    return headers + [before.rpartition("\n")[2] for before in text.split("=")]


def _refused(why: str) -> InvalidObject:
    return InvalidObject(why, field=USER_DATA_FIELD)


def _merge(found: dict[str, Any], bootstrap: Bootstrap) -> None:
    """Put our settings into the user's document."""
    settings = _table(found, "settings", "settings")
    kubernetes = _table(settings, "kubernetes", "settings.kubernetes")
    if bootstrap.labels:
        labels = _table(kubernetes, "node-labels", "settings.kubernetes.node-labels")
        labels.update(bootstrap.labels)
    kubernetes.update(_kubernetes(bootstrap))
    autoscaling = settings.get("autoscaling")
    if isinstance(autoscaling, dict) and "should-wait" in autoscaling:
        # No Auto Scaling group ever tells such a node to go on.
        autoscaling["should-wait"] = False
    if bootstrap.raid0_instance_store:
        commands = _table(settings, "bootstrap-commands", "settings.bootstrap-commands")
        commands[_MOUNT] = _mount_command()


def _table(parent: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    found = parent.setdefault(name, {})
    if not isinstance(found, dict):
        raise _refused(f"{path} is a {type(found).__name__}; write it as a table, [{path}]")
    return found


def _kubernetes(bootstrap: Bootstrap) -> dict[str, Any]:
    """settings.kubernetes, without the labels."""
    settings: dict[str, Any] = {
        "cluster-name": bootstrap.cluster_name,
        "api-server": bootstrap.endpoint,
        "cluster-certificate": bootstrap.ca_bundle,
        "node-taints": _taints(bootstrap),
        **_kubelet(bootstrap),
    }
    if bootstrap.max_pods is not None:
        settings["max-pods"] = bootstrap.max_pods
    if addresses := bootstrap.dns_addresses:
        settings["cluster-dns-ip"] = addresses[0] if len(addresses) == 1 else addresses
    return settings


def _taints(bootstrap: Bootstrap) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value, effect in bootstrap.taints:
        found.setdefault(key, []).append(f"{value}:{effect}")
    return found


def _kubelet(bootstrap: Bootstrap) -> dict[str, Any]:
    """P-20, EC-10: Bottlerocket wants quantities and percentages as text."""
    said = {name: value for name, value in bootstrap.kubelet.items() if value is not None}
    maps = {
        ours: {key: str(value) for key, value in said[name].items()}
        for name, ours in _MAPS.items()
        if name in said
    }
    texts = {ours: str(said[name]) for name, ours in _PERCENTAGES.items() if name in said}
    return maps | texts | {ours: said[name] for name, ours in _SAME.items() if name in said}


def _mount_command() -> dict[str, Any]:
    """EC-08 RAID0: Bottlerocket joins the local disks by a command at boot."""
    commands = [[*_DISK, "init"], [*_DISK, "bind", "--dirs", *_DIRECTORIES]]
    return {"commands": commands, "mode": "always", "essential": True}
