"""The EKS cluster as EKS describes it: version for images, endpoint and certificate authority for user data (EC-23)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from services.launcher.ports import Ports
from shared.cloud.eks import EksCluster
from shared.log import get_logger

log = get_logger(__name__)

DESCRIPTION_FRESH_SECONDS = 300.0
"""How long an answer of EKS is used."""


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
