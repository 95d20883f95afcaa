"""The kubelet's settings as command-line flags, for boot scripts without a configuration file (P-20..P-23, EC-10).

``text`` is one command line, with each value in double quotes because scripts put the whole line in single quotes.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.cloud.user_data.bootstrap import Bootstrap

SCALAR_FLAGS = {
    "podsPerCore": "pods-per-core",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "imageGCHighThresholdPercent": "image-gc-high-threshold",
    "imageGCLowThresholdPercent": "image-gc-low-threshold",
}
MAP_FLAGS = {
    "systemReserved": ("system-reserved", "="),
    "kubeReserved": ("kube-reserved", "="),
    "evictionHard": ("eviction-hard", "<"),
    "evictionSoft": ("eviction-soft", "<"),
    "evictionSoftGracePeriod": ("eviction-soft-grace-period", "="),
}


def text(bootstrap: Bootstrap) -> str:
    """The flags as text, such as ``--node-labels="a=b" --max-pods="29"``; empty without flags."""
    return " ".join(f"--{name}={_double_quoted(value)}" for name, value in flags(bootstrap))


def _double_quoted(value: str) -> str:
    r"""``a"b`` -> ``"a\"b"``."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def flags(bootstrap: Bootstrap) -> list[tuple[str, str]]:
    """(name without dashes, value) of each flag, in a fixed order."""
    return [*_identity(bootstrap), *_settings(bootstrap)]


def _identity(bootstrap: Bootstrap) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if bootstrap.labels:
        found.append(("node-labels", label_list(bootstrap.labels)))
    if bootstrap.taints:
        taints = (f"{key}={value}:{effect}" for key, value, effect in bootstrap.taints)
        found.append(("register-with-taints", ",".join(taints)))
    if bootstrap.max_pods is not None:
        found.append(("max-pods", str(bootstrap.max_pods)))
    return found


def _settings(bootstrap: Bootstrap) -> list[tuple[str, str]]:
    kubelet = bootstrap.kubelet
    found = [
        (flag, str(kubelet[name]))
        for name, flag in SCALAR_FLAGS.items()
        if kubelet.get(name) is not None
    ]
    for name, (flag, sign) in MAP_FLAGS.items():
        if kubelet.get(name):
            entries = sorted(kubelet[name].items())
            found.append((flag, ",".join(f"{key}{sign}{value}" for key, value in entries)))
    if kubelet.get("cpuCFSQuota") is not None:
        found.append(("cpu-cfs-quota", str(kubelet["cpuCFSQuota"]).lower()))
    return found


def label_list(labels: Mapping[str, str]) -> str:
    """``a=b,c=d``, sorted by key."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
