"""The data that a node of any image family needs to join its cluster (LCH-37, LCH-38, LCH-40). Pure.

Labels and taints are rendered as given: callers apply ``kubelet_labels`` and ``boot_taints`` first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.domain.labels import UNREGISTERED_TAINT_KEY

USER_DATA_FIELD = "spec.userData"
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
"""Labels that NodeRestriction lets a kubelet set on its own Node (kubernetes.io/docs, admission controllers)."""


@dataclass(frozen=True)
class Bootstrap:
    """``ca_bundle`` is base64; ``kubelet`` has KubeletConfiguration's names; ``user_data`` is the class's own text.

    ``cluster_dns`` is the address of the cluster's DNS service, for nodes whose kubelet settings have no address.
    Only AL2023 uses ``service_cidr``; AL2, AL2023 and Bottlerocket use ``raid0_instance_store``.
    """

    cluster_name: str
    endpoint: str
    ca_bundle: str
    cluster_dns: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    max_pods: int | None = None
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    user_data: str = ""
    service_cidr: str = ""
    raid0_instance_store: bool = False

    @property
    def is_ipv6(self) -> bool:
        """Whether the cluster uses IPv6, by its service network or the address of its DNS."""
        return any(":" in address for address in (self.service_cidr, *self.dns_addresses[:1]))

    @property
    def dns_addresses(self) -> list[str]:
        """The addresses of the kubelet settings, else of the cluster; empty leaves the image's default (LCH-40)."""
        addresses = [str(address) for address in self.kubelet.get("clusterDNS") or ()]
        return addresses or ([self.cluster_dns] if self.cluster_dns else [])


def kubelet_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that a kubelet may set on its own Node; the others are written at registration (LCH-37)."""
    return {key: labels[key] for key in sorted(labels) if _kubelet_may_set(key)}


def _kubelet_may_set(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if key in _KUBELET_LABELS or _within(domain, _KUBELET_DOMAINS):
        return True
    return not _within(domain, _RESTRICTED_DOMAINS)


def _within(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def boot_taints(*groups: Iterable[Taint]) -> tuple[Taint, ...]:
    """All taints without duplicates, then the taint that repels pods until registration (LCH-38)."""
    unregistered = (UNREGISTERED_TAINT_KEY, "", "NoExecute")
    return tuple(dict.fromkeys([*(taint for group in groups for taint in group), unregistered]))
