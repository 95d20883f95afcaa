"""EKS: the cluster's data that a node needs to join it (LCH-32, LCH-40)."""

from __future__ import annotations

import msgspec

from shared.cloud.client.calls import AwsService


class EksCluster(msgspec.Struct, frozen=True):
    """``certificate_authority`` is base64 PEM; ``service_cidr`` is the IPv4 network, else the IPv6 network."""

    version: str
    endpoint: str
    certificate_authority: str
    service_cidr: str
    arn: str = ""

    @property
    def is_ipv6(self) -> bool:
        """Whether pods and services have IPv6 addresses. The address family of an EKS cluster never changes."""
        return ":" in self.service_cidr


class Eks(AwsService):
    """The one EKS call that Dovetail makes."""

    async def cluster(self, name: str) -> EksCluster:
        """DescribeCluster. Raises NotFound for an unknown name."""
        cluster = (await self._calls.read("describe_cluster", name=name))["cluster"]
        network = cluster.get("kubernetesNetworkConfig") or {}
        return EksCluster(
            version=cluster.get("version", ""),
            endpoint=cluster.get("endpoint", ""),
            certificate_authority=(cluster.get("certificateAuthority") or {}).get("data", ""),
            service_cidr=network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr") or "",
            arn=cluster.get("arn", ""),
        )
