"""Kubelet settings in an instance's user data: labels, taints, pod limit, operating system, GPU sharing.

Four formats: Amazon Linux 2 and Ubuntu (a shell script, alone or in a MIME message, that calls
``/etc/eks/bootstrap.sh`` with ``--kubelet-extra-args``), Amazon Linux 2023 (``NodeConfig`` YAML of nodeadm, alone or in
MIME; the last of several documents applies), Bottlerocket (TOML) and Windows (PowerShell that calls
``Start-EKSBootstrap.ps1``). Unknown formats give an empty configuration: the instance joins without labels, like with a
broken script that still starts the kubelet. User data is never executed.
"""

from __future__ import annotations

import base64
import binascii
import email
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from local.cluster.kubelet.gpu_sharing import UNSHARED, GpuSharing, read_sharing
from shared.domain.resources import Resources, parse_amount, parse_resources
from shared.errors import InvalidObject

BOOTSTRAP = "/etc/eks/bootstrap.sh"
EXTRA_ARGS = "--kubelet-extra-args"
OWNERS = ("kube", "system")
"""Of the flags that reserve resources."""
WINDOWS_TAG = "<powershell>"
_BOTTLEROCKET = re.compile(r"^\s*\[\s*settings\b|^\s*settings\s*\.", re.MULTILINE)
_WINDOWS_ARGUMENT = re.compile(
    "-([A-Za-z0-9]+) ['\u2018-\u201b]((?:[^'\u2018-\u201b]|(['\u2018-\u201b])\\3)*)['\u2018-\u201b]"
)
_DOUBLED_QUOTE = re.compile("(['\u2018-\u201b])\\1")


@dataclass(frozen=True)
class KubeletConfiguration:
    """The kubelet flags that affect the Node object. ``max_pods`` None means the instance type's limit."""

    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    max_pods: int | None = None
    cluster: str | None = None
    operating_system: str = "linux"
    gpu_sharing: GpuSharing = UNSHARED
    kube_reserved: Resources = field(default_factory=dict)
    """It replaces what EKS' images reserve of a resource."""
    system_reserved: Resources = field(default_factory=dict)
    eviction: dict[str, str] = field(default_factory=dict)
    """Hard thresholds by signal, such as ``{"memory.available": "5%"}``."""
    local_disks: bool = False
    """Whether the local disks hold the pods' data."""


def parse_user_data(encoded: str | None) -> KubeletConfiguration:
    """Read base64 user data. Raises ValueError that describes the unreadable part."""
    if not encoded:
        return KubeletConfiguration()
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"user data is not base64 text: {error}") from error
    if text.lstrip().startswith(WINDOWS_TAG):
        return _from_powershell(text)
    parts = list(_parts(text))
    configs = [part for part in parts if "kind: NodeConfig" in part]
    scripts = [part for part in parts if BOOTSTRAP in part]
    if configs:
        return _from_node_config(configs[-1])
    if scripts:
        return _from_bootstrap(scripts[-1])
    return _from_settings(text) if _BOTTLEROCKET.search(text) else KubeletConfiguration()


def _parts(text: str) -> Iterator[str]:
    """The texts of a MIME message, or the text itself."""
    if not text.lstrip().lower().startswith(("mime-version:", "content-type: multipart")):
        yield text
        return
    for part in email.message_from_string(text.lstrip()).walk():
        if not part.is_multipart():
            payload = part.get_payload(decode=True)
            yield payload.decode(errors="replace") if isinstance(payload, bytes) else str(payload)


def _from_bootstrap(script: str) -> KubeletConfiguration:
    for line in script.replace("\\\n", " ").splitlines():
        if BOOTSTRAP not in line or line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise ValueError(f"the call of {BOOTSTRAP} is not shell syntax: {error}") from error
        arguments = words[words.index(BOOTSTRAP) + 1 :] if BOOTSTRAP in words else []
        extra = _value_of(EXTRA_ARGS, arguments) or ""
        cluster = next((word for word in arguments if not word.startswith("-")), None)
        local_disks = _value_of("--local-disks", arguments) is not None
        return replace(_from_flags(shlex.split(extra), cluster), local_disks=local_disks)
    return KubeletConfiguration()


def _from_powershell(text: str) -> KubeletConfiguration:
    """The last call applies, as when the script runs."""
    calls = [line for line in text.splitlines() if "-EKSClusterName" in line]
    if not calls:
        return KubeletConfiguration(operating_system="windows")
    found = {
        name: _DOUBLED_QUOTE.sub(r"\1", value)
        for name, value, _ in _WINDOWS_ARGUMENT.findall(calls[-1])
    }
    words = shlex.split(found.get("KubeletExtraArgs", ""))
    return _from_flags(words, found.get("EKSClusterName"), "windows")


def _value_of(flag: str, words: list[str]) -> str | None:
    for index, word in enumerate(words):
        if word == flag:
            return words[index + 1] if index + 1 < len(words) else ""
        if word.startswith(flag + "="):
            return word[len(flag) + 1 :]
    return None


def _from_flags(
    words: list[str], cluster: str | None = None, operating_system: str = "linux"
) -> KubeletConfiguration:
    labels = dict(_pairs(_value_of("--node-labels", words)))
    taints = [parse_taint(text) for text in _list(_value_of("--register-with-taints", words))]
    limit = _value_of("--max-pods", words)
    if limit is not None and not limit.isdigit():
        raise ValueError(f"--max-pods={limit} is not a number")
    pods = int(limit) if limit else None
    kube, system = (
        _amounts(name, dict(_pairs(_value_of(f"--{name}-reserved", words)))) for name in OWNERS
    )
    return KubeletConfiguration(
        labels,
        taints,
        pods,
        cluster,
        operating_system,
        kube_reserved=kube,
        system_reserved=system,
        eviction=_thresholds(dict(_pairs(_value_of("--eviction-hard", words), "<"))),
    )


def _list(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").strip("\"'").split(",") if part.strip()]


def _pairs(text: str | None, sign: str = "=") -> Iterable[tuple[str, str]]:
    for part in _list(text):
        key, _, value = part.partition(sign)
        yield key, value


def parse_taint(text: str) -> dict[str, str]:
    """``key=value:Effect`` or ``key:Effect``. Raises ValueError."""
    front, colon, effect = text.rpartition(":")
    key, _, value = front.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ValueError(f"--register-with-taints: {text!r} is not key=value:Effect")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _from_node_config(text: str) -> KubeletConfiguration:
    try:
        return _node_config([d for d in yaml.safe_load_all(text) if isinstance(d, dict)])
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"NodeConfig is not YAML: {error}") from error
    except (AttributeError, TypeError) as error:  # a number where an object or a list belongs
        raise ValueError(f"NodeConfig has a value of the wrong type: {error}") from error


def _node_config(documents: list[dict[str, Any]]) -> KubeletConfiguration:
    spec = next((d.get("spec") or {} for d in documents if d.get("kind") == "NodeConfig"), {})
    kubelet: dict[str, Any] = spec.get("kubelet") or {}
    config: dict[str, Any] = kubelet.get("config") or {}
    flags = [word for flag in kubelet.get("flags") or () for word in shlex.split(str(flag))]
    from_flags = _from_flags(flags, (spec.get("cluster") or {}).get("name"))
    listed = [
        {name: str(taint[name]) for name in ("key", "value", "effect") if taint.get(name)}
        for taint in config.get("registerWithTaints") or ()
    ]
    most = config.get("maxPods")
    if most is not None and not isinstance(most, int):
        raise TypeError(f"maxPods: {most!r} is not a whole number")
    return KubeletConfiguration(
        labels=from_flags.labels,
        taints=from_flags.taints + listed,
        max_pods=from_flags.max_pods or most,
        cluster=from_flags.cluster,
        kube_reserved=_amounts("kube", config.get("kubeReserved")),
        system_reserved=_amounts("system", config.get("systemReserved")),
        eviction=_thresholds(config.get("evictionHard") or {}),
        local_disks=bool((spec.get("instance") or {}).get("localStorage")),
    )


def _amounts(owner: str, reserved: object) -> Resources:
    """A kubelet with another value does not start. Raises ValueError."""
    try:
        return parse_resources(reserved, field=f"{owner}Reserved")
    except InvalidObject as error:
        raise ValueError(error.message) from error


def _thresholds(hard: dict[str, Any]) -> dict[str, str]:
    """A kubelet with another value does not start. Raises ValueError."""
    texts = {signal: str(text) for signal, text in hard.items()}
    for signal, text in texts.items():
        name = f"evictionHard[{signal}]"
        try:
            if not text.endswith("%"):
                parse_amount("memory", text, field=name)
            elif not 0 <= float(text[:-1]) <= 100:
                raise ValueError(text)
        except (InvalidObject, ValueError) as error:
            raise ValueError(f"{name}: {text} is no amount, nor 0% to 100%") from error
    return texts


def _from_settings(text: str) -> KubeletConfiguration:
    try:
        settings = tomllib.loads(text).get("settings", {})
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"settings are not TOML: {error}") from error
    kubernetes = settings.get("kubernetes", {})
    taints = [
        parse_taint(f"{key}={value}")
        for key, values in (kubernetes.get("node-taints") or {}).items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return KubeletConfiguration(
        labels=dict(kubernetes.get("node-labels") or {}),
        taints=taints,
        max_pods=kubernetes.get("max-pods"),
        cluster=kubernetes.get("cluster-name"),
        gpu_sharing=read_sharing(settings),
        kube_reserved=_amounts("kube", kubernetes.get("kube-reserved")),
        system_reserved=_amounts("system", kubernetes.get("system-reserved")),
        eviction=_thresholds(kubernetes.get("eviction-hard") or {}),
        local_disks=_mounts_local_disks(settings),
    )


def _mounts_local_disks(settings: dict[str, Any]) -> bool:
    """Whether a boot command combines the local disks."""
    return "ephemeral-storage" in str(settings.get("bootstrap-commands"))
