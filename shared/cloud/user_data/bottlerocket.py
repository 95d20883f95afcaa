"""Bottlerocket: TOML settings, the user's merged with Dovetail's, which take precedence (LCH-33).

Labels are merged one by one. Dovetail's taints, reservations and thresholds replace the user's as a whole: machines
are planned with them, and an additional entry would reduce the planned capacity or repel the planned pods.

What may go wrong: user data that is not TOML, or that has another type in place of a table: ``InvalidObject``.
Bottlerocket has no podsPerCore, so it is omitted (IT-13 does not count it either).
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
"""Most parts of a dotted key: the time to parse one grows with their square."""
_MOUNT = "000-mount-instance-storage"
_DISK = ["apiclient", "ephemeral-storage"]
_DIRECTORIES = ["/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]


def render(bootstrap: Bootstrap) -> str:
    """The user data as a TOML document (LCH-33). Raises InvalidObject."""
    if any(key.count(".") >= _DEEPEST_KEY for key in _keys(bootstrap.user_data)):
        raise _refused("nests its tables too deeply")
    try:
        found = tomllib.loads(bootstrap.user_data)
        _merge(found, bootstrap)
        return to_toml(found)
    except RecursionError:
        raise _refused("nests its tables too deeply") from None
    except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
        raise _refused(f"is not TOML, which Bottlerocket needs: {error}") from None


def _keys(text: str) -> list[str]:
    """Every text that may be a key: the text before each ``=``, and table headers."""
    headers = [line for line in text.splitlines() if line.lstrip().startswith("[")]
    return headers + [before.rpartition("\n")[2] for before in text.split("=")]


def _refused(why: str) -> InvalidObject:
    return InvalidObject(why, field=USER_DATA_FIELD)


def _merge(found: dict[str, Any], bootstrap: Bootstrap) -> None:
    """Write Dovetail's settings into the user's document."""
    settings = _table(found, "settings", "settings")
    kubernetes = _table(settings, "kubernetes", "settings.kubernetes")
    if bootstrap.labels:
        labels = _table(kubernetes, "node-labels", "settings.kubernetes.node-labels")
        labels.update(bootstrap.labels)
    kubernetes.update(_kubernetes(bootstrap))
    autoscaling = settings.get("autoscaling")
    if isinstance(autoscaling, dict) and "should-wait" in autoscaling:
        # The node is in no Auto Scaling group, so it would wait for ever.
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
    """The table settings.kubernetes without its labels."""
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
    """The kubelet's settings (P-20, EC-10). Bottlerocket takes quantities and percentages as strings."""
    given = {name: value for name, value in bootstrap.kubelet.items() if value is not None}
    maps = {
        key: {name: str(value) for name, value in given[field].items()}
        for field, key in _MAPS.items()
        if field in given
    }
    texts = {key: str(given[field]) for field, key in _PERCENTAGES.items() if field in given}
    return maps | texts | {key: given[field] for field, key in _SAME.items() if field in given}


def _mount_command() -> dict[str, Any]:
    """The boot command with which Bottlerocket combines the local disks (EC-08 RAID0)."""
    commands = [[*_DISK, "init"], [*_DISK, "bind", "--dirs", *_DIRECTORIES]]
    return {"commands": commands, "mode": "always", "essential": True}
