"""User data: what a new machine runs at first boot to join its cluster (LCH-30..32, LCH-36..38).

A MIME multipart document: the user's parts first, ours last, so that ours wins. AL2 gets a shell
part that calls EKS's bootstrap.sh, AL2023 a NodeConfig document for nodeadm. Parts are written
verbatim (the ``email`` generator would change line ends and lines that start with ``From ``); user
parts are read with the ``email`` parser.

What may go wrong: EC2 takes 16 KiB before base64; more raises ``InvalidObject``. bootstrap.sh
writes the kubelet arguments into a systemd unit inside single quotes, so label and taint values
must keep to Kubernetes' syntax, which the API edge has checked.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_string
from typing import Any

import yaml

from shared.domain.labels import UNREGISTERED_TAINT_KEY
from shared.errors import InvalidObject

LIMIT_BYTES = 16 * 1024
BOUNDARY = "//"
SHELL = 'text/x-shellscript; charset="us-ascii"'
SHELL_UTF8 = 'text/x-shellscript; charset="utf-8"'
NODE_CONFIG = "application/node.eks.aws"

Taint = tuple[str, str, str]
"""(key, value, effect)"""

_RESTRICTED_DOMAINS = ("kubernetes.io", "k8s.io")
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.kubernetes.io/region",
        "failure-domain.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""What NodeRestriction lets a kubelet set on itself (kubernetes.io/docs, admission controllers)."""

_SCALAR_FLAGS = {
    "podsPerCore": "pods-per-core",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "imageGCHighThresholdPercent": "image-gc-high-threshold",
    "imageGCLowThresholdPercent": "image-gc-low-threshold",
}
_MAP_FLAGS = {
    "systemReserved": ("system-reserved", "="),
    "kubeReserved": ("kube-reserved", "="),
    "evictionHard": ("eviction-hard", "<"),
    "evictionSoft": ("eviction-soft", "<"),
    "evictionSoftGracePeriod": ("eviction-soft-grace-period", "="),
}


@dataclass(frozen=True)
class Bootstrap:
    """What a node must know. ``ca_bundle`` is base64; ``kubelet`` uses KubeletConfiguration's
    names.

    ``labels`` and ``taints`` are rendered as given: see ``kubelet_labels`` and ``boot_taints``.
    ``service_cidr`` and ``raid0_instance_store`` are read by AL2023 only, ``container_runtime`` by
    AL2.
    """

    cluster_name: str
    endpoint: str
    ca_bundle: str
    dns_ip: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    max_pods: int | None = None
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    user_data: str | None = None
    service_cidr: str = ""
    raid0_instance_store: bool = False
    container_runtime: str | None = None


@dataclass(frozen=True)
class Part:
    """One MIME part: header lines without line ends, and the body verbatim."""

    headers: tuple[str, ...]
    body: str


def kubelet_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """LCH-37: the labels a kubelet may set on its own Node; the rest is synced at registration."""
    return {key: labels[key] for key in sorted(labels) if _kubelet_may_set(key)}


def _kubelet_may_set(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if key in _KUBELET_LABELS or _within(domain, _KUBELET_DOMAINS):
        return True
    return not _within(domain, _RESTRICTED_DOMAINS)


def _within(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def boot_taints(*groups: Iterable[Taint]) -> tuple[Taint, ...]:
    """LCH-38: all taints once, then the one that keeps pods away until registration."""
    unregistered = (UNREGISTERED_TAINT_KEY, "", "NoExecute")
    return tuple(dict.fromkeys([*(taint for group in groups for taint in group), unregistered]))


def al2_user_data(bootstrap: Bootstrap) -> str:
    """LCH-30: MIME text for Amazon Linux 2. Raises InvalidObject above 16 KiB (LCH-36)."""
    parts = _user_parts(bootstrap.user_data)
    return _document([*parts, _shell_part(_bootstrap_script(bootstrap))])


def al2023_user_data(bootstrap: Bootstrap) -> str:
    """LCH-32: MIME text for Amazon Linux 2023. Raises InvalidObject above 16 KiB (LCH-36)."""
    text = yaml.safe_dump(_node_config(bootstrap), sort_keys=False)
    config = Part((f"Content-Type: {NODE_CONFIG}",), text)
    return _document([*_user_parts(bootstrap.user_data), config])


def _bootstrap_script(bootstrap: Bootstrap) -> str:
    words = [
        "/etc/eks/bootstrap.sh",
        shlex.quote(bootstrap.cluster_name),
        "--apiserver-endpoint",
        shlex.quote(bootstrap.endpoint),
        "--b64-cluster-ca",
        shlex.quote(bootstrap.ca_bundle),
    ]
    if bootstrap.dns_ip:
        words += ["--dns-cluster-ip", shlex.quote(bootstrap.dns_ip)]
    if bootstrap.container_runtime:
        words += ["--container-runtime", shlex.quote(bootstrap.container_runtime)]
    words += ["--use-max-pods", "false"]
    arguments = " ".join(f"--{name}={_double_quoted(v)}" for name, v in kubelet_flags(bootstrap))
    if arguments:
        words += ["--kubelet-extra-args", shlex.quote(arguments)]
    log = "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1"
    return f"#!/bin/bash -xe\n{log}\n{' '.join(words)}\n"


def _double_quoted(text: str) -> str:
    r"""``a"b`` -> ``"a\"b"``: double, because the whole list stands in single quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def kubelet_flags(bootstrap: Bootstrap) -> list[tuple[str, str]]:
    """Kubelet command-line flags without dashes, in a fixed order."""
    flags: list[tuple[str, str]] = []
    if bootstrap.labels:
        flags.append(("node-labels", _label_list(bootstrap.labels)))
    if bootstrap.taints:
        taints = (f"{key}={value}:{effect}" for key, value, effect in bootstrap.taints)
        flags.append(("register-with-taints", ",".join(taints)))
    if bootstrap.max_pods is not None:
        flags.append(("max-pods", str(bootstrap.max_pods)))
    kubelet = bootstrap.kubelet
    for name, flag in _SCALAR_FLAGS.items():
        if kubelet.get(name) is not None:
            flags.append((flag, str(kubelet[name])))
    for name, (flag, sign) in _MAP_FLAGS.items():
        if kubelet.get(name):
            entries = sorted(kubelet[name].items())
            flags.append((flag, ",".join(f"{key}{sign}{value}" for key, value in entries)))
    if kubelet.get("cpuCFSQuota") is not None:
        flags.append(("cpu-cfs-quota", str(kubelet["cpuCFSQuota"]).lower()))
    return flags


def _label_list(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def _node_config(bootstrap: Bootstrap) -> dict[str, Any]:
    config: dict[str, Any] = {k: v for k, v in bootstrap.kubelet.items() if v is not None}
    if bootstrap.max_pods is not None:
        config["maxPods"] = bootstrap.max_pods
    if bootstrap.dns_ip and "clusterDNS" not in config:
        config["clusterDNS"] = [bootstrap.dns_ip]
    if bootstrap.taints:
        config["registerWithTaints"] = [_taint_object(taint) for taint in bootstrap.taints]
    labels = [f"--node-labels={_label_list(bootstrap.labels)}"] if bootstrap.labels else []
    spec: dict[str, Any] = {
        "cluster": {
            "name": bootstrap.cluster_name,
            "apiServerEndpoint": bootstrap.endpoint,
            "certificateAuthority": bootstrap.ca_bundle,
            "cidr": bootstrap.service_cidr,
        },
        "kubelet": {"config": config, "flags": labels},
    }
    if bootstrap.raid0_instance_store:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def _taint_object(taint: Taint) -> dict[str, str]:
    key, value, effect = taint
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


def _user_parts(text: str | None) -> list[Part]:
    """LCH-31: a MIME document's parts, else the text as one part."""
    if not text or not text.strip():
        return []
    if text.lstrip().lower().startswith(("mime-version:", "content-type: multipart/")):
        return _mime_parts(text.lstrip())
    if _is_node_config(text):
        return [Part((f"Content-Type: {NODE_CONFIG}",), text)]
    return [_shell_part(text)]


def _mime_parts(text: str) -> list[Part]:
    message = message_from_string(text)
    if not message.is_multipart():
        raise InvalidObject(
            "starts like a MIME document but holds no parts; check its boundary",
            field="spec.userData",
        )
    return [
        Part(tuple(f"{name}: {value}" for name, value in part.items()), str(part.get_payload()))
        for part in message.walk()
        if not part.is_multipart()
    ]


def _is_node_config(text: str) -> bool:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    return isinstance(document, dict) and document.get("kind") == "NodeConfig"


def _shell_part(script: str) -> Part:
    return Part((f"Content-Type: {SHELL if script.isascii() else SHELL_UTF8}",), script)


def _document(parts: Sequence[Part]) -> str:
    boundary = _boundary(parts)
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in parts:
        lines += [f"--{boundary}", *part.headers, "", part.body]
    text = "\n".join([*lines, f"--{boundary}--", ""])
    size = len(text.encode())
    if size > LIMIT_BYTES:
        raise InvalidObject(
            f"makes {size} bytes of user data, EC2 takes {LIMIT_BYTES}; shorten the script, "
            "for example by downloading most of it",
            field="spec.userData",
        )
    return text


def _boundary(parts: Sequence[Part]) -> str:
    """``//``, or a longer one when a user's script holds that line."""
    text = "".join(part.body for part in parts)
    if f"--{BOUNDARY}" not in text:
        return BOUNDARY
    return f"{BOUNDARY}{hashlib.sha256(text.encode()).hexdigest()[:32]}"
