"""Refuses values that cannot be passed safely to a node, even if an API server admitted them (LCH-30..34, P-20..23).

Dovetail's own schemas refuse them too, but a cluster that still has the CRDs of an older Karpenter admits any text.
Boot data is parsed twice: by the shell of the image family, where quoting protects a value, and by the programs that
it calls. EKS's bootstrap.sh writes the kubelet's arguments into a systemd unit in quotes of its own, and the kubelet
splits its lists at commas and equals signs. Quoting cannot protect values there; a check of their syntax can. Pure.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from shared.api.core.label_syntax import is_label_value, is_qualified_name
from shared.cloud.user_data.bootstrap import Bootstrap, Taint
from shared.cloud.user_data.kubelet_flags import MAP_FLAGS, SCALAR_FLAGS
from shared.domain.expressions import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from shared.errors import InvalidObject

EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
LONGEST_SHOWN = 60
_CLUSTER_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
_ENDPOINT = re.compile(r"https?://[0-9A-Za-z._~:/\[\]-]{1,512}")
_BASE64 = re.compile(r"[0-9A-Za-z+/\s]*={0,2}\s*", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9.-]{0,62}")
_AMOUNT = re.compile(r"[0-9A-Za-z.+µ-]{1,32}%?")
"""A quantity, a percentage or a duration. The kubelet validates its meaning."""


def check(bootstrap: Bootstrap) -> None:
    """Check every rendered value except the class's own user data. Raises InvalidObject naming the field."""
    _check_cluster(bootstrap)
    for key, value in bootstrap.labels.items():
        _check_label(key, value)
    for taint in bootstrap.taints:
        _check_taint(taint)
    _check_kubelet(bootstrap.kubelet)


def _check_cluster(bootstrap: Bootstrap) -> None:
    """Check the cluster's values. An empty one is not known yet: a class is checked before its first machine."""
    name, endpoint = bootstrap.cluster_name, bootstrap.endpoint
    if name:
        _match(_CLUSTER_NAME, name, "CLUSTER_NAME", "the name of an EKS cluster")
    if endpoint:
        _match(_ENDPOINT, endpoint, "CLUSTER_ENDPOINT", "a URL such as https://example.com")
    _match(_BASE64, bootstrap.ca_bundle, "CLUSTER_CA_BUNDLE", "base64")
    if bootstrap.cluster_dns:
        _check_address(bootstrap.cluster_dns, "the address of the service kube-dns")
    if bootstrap.service_cidr:
        _check_network(bootstrap.service_cidr, "the cluster's serviceIpv4Cidr")


def _check_label(key: str, value: str) -> None:
    if not is_qualified_name(key):
        raise _refused("metadata.labels", key, "use a label key such as example.com/name")
    if not is_label_value(value):
        raise _refused(
            f"metadata.labels[{key}]",
            value,
            "use at most 63 letters, digits, hyphens, underscores and dots",
        )


def _check_taint(taint: Taint) -> None:
    key, value, effect = taint
    if not is_qualified_name(key):
        raise _refused("spec.taints.key", key, "use a key such as example.com/name")
    if not is_label_value(value):
        raise _refused(f"spec.taints[{key}].value", value, "use letters, digits, '-', '_' and '.'")
    if effect not in EFFECTS:
        raise _refused(f"spec.taints[{key}].effect", effect, f"use one of {', '.join(EFFECTS)}")


def _check_kubelet(kubelet: Mapping[str, Any]) -> None:
    given = {name: value for name, value in kubelet.items() if value is not None}
    for name in SCALAR_FLAGS:
        if name in given and (isinstance(given[name], bool) or not isinstance(given[name], int)):
            raise _refused(f"spec.kubelet.{name}", given[name], "use a whole number")
    if not isinstance(given.get("cpuCFSQuota", False), bool):
        raise _refused("spec.kubelet.cpuCFSQuota", given["cpuCFSQuota"], "use true or false")
    if "containerRuntime" in given:
        runtime, field = str(given["containerRuntime"]), "spec.kubelet.containerRuntime"
        _match(_NAME, runtime, field, "a name such as containerd")
    for name in MAP_FLAGS:
        _check_amounts(f"spec.kubelet.{name}", given.get(name, {}))
    addresses = given.get("clusterDNS", ())
    if not isinstance(addresses, list | tuple):
        raise _refused("spec.kubelet.clusterDNS", addresses, "use a list of IP addresses")
    for address in addresses:
        _check_address(str(address), "spec.kubelet.clusterDNS")


def _check_amounts(field: str, amounts: object) -> None:
    if not isinstance(amounts, Mapping):
        raise _refused(field, amounts, "use a mapping such as {memory: 100Mi}")
    for name, amount in amounts.items():
        _match(_NAME, str(name), field, "a name such as memory or memory.available")
        _match(_AMOUNT, str(amount), f"{field}[{name}]", "an amount such as 100Mi, 5% or 2m")


def _check_address(text: str, field: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise _refused(field, text, "use an IP address") from None


def _check_network(text: str, field: str) -> None:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise _refused(field, text, "use a network such as 10.100.0.0/16") from None


def _match(pattern: re.Pattern[str], text: str, field: str, what: str) -> None:
    if pattern.fullmatch(text) is None:
        raise _refused(field, text, f"use {what}")


def _refused(field: str, value: object, fix: str) -> InvalidObject:
    """The error for a value, which is shown in ASCII so that no control character reaches a terminal."""
    shown = ascii(value)
    shown = shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}..."
    return InvalidObject(f"{shown} cannot be passed to a node; {fix}", field=field)
