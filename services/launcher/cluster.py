"""The cluster as EKS and its API server describe it: version for images, endpoint and certificate authority for user
data (EC-23), and the address of its DNS service for nodes whose kubelet settings name none (LCH-40).

What may go wrong: a cluster without that service, or one that we may not read. Then nodes get no address from us, and
their image takes the usual one of the cluster's service range.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from services.launcher.ports import Ports
from shared.cloud.eks import EksCluster
from shared.concurrency.clock import Clock
from shared.errors import NotFound, Unauthorized
from shared.kube.client import Kube
from shared.kube.resources import SERVICES
from shared.log import get_logger

log = get_logger(__name__)

DESCRIPTION_FRESH_SECONDS = 300.0
"""How long an answer of EKS is used."""
NAMESPACE, NAME = "kube-system", "kube-dns"
ADDRESS_FRESH_SECONDS = 300.0
HEADLESS = "None"


@dataclass
class ClusterDescription:
    """Asks EKS, at most every five minutes."""

    ports: Ports
    _held: tuple[float, EksCluster] | None = None

    async def described(self) -> EksCluster:
        """The cluster as EKS described it in the last five minutes. Raises what EKS raises."""
        now = self.ports.clock.monotonic()
        if self._held is not None and now - self._held[0] < DESCRIPTION_FRESH_SECONDS:
            return self._held[1]
        found = await self.ports.cloud.eks.cluster(self.ports.settings.cluster_name)
        if self._held is None or self._held[1].version != found.version:
            log.debug("discovered kubernetes version", **{"kubernetes-version": found.version})
        self._held = (now, found)
        return found

    def is_ipv6(self) -> bool:
        """Do pods have IPv6 addresses, as far as EKS was asked?"""
        return self._held is not None and self._held[1].is_ipv6

    def authority(self) -> str:
        """Digest of the certificate authority in new machines' boot data; empty before EKS was asked for one."""
        held = self._held[1].certificate_authority if self._held else ""
        bundle = self.ports.settings.cluster_ca_bundle or held
        return hashlib.sha256(bundle.encode()).hexdigest()[:16] if bundle else ""


@dataclass
class ClusterDns:
    """Asks the API server, at most every five minutes."""

    kube: Kube
    clock: Clock
    _known: tuple[float, str | None] | None = None

    async def address(self) -> str | None:
        """The cluster IP of kube-system/kube-dns, None if there is none. Raises TransientError."""
        now = self.clock.monotonic()
        if self._known is not None and now - self._known[0] < ADDRESS_FRESH_SECONDS:
            return self._known[1]
        self._known = (now, await self._ask())
        return self._known[1]

    async def _ask(self) -> str | None:
        try:
            service = await self.kube.get(SERVICES, NAME, namespace=NAMESPACE)
        except (NotFound, Unauthorized) as error:
            log.debug("unable to detect the IP of the kube-dns service", error=error.message)
            return None
        address = str((service.get("spec") or {}).get("clusterIP") or "")
        return None if address in ("", HEADLESS) else address
