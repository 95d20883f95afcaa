"""The address of the cluster's DNS service, for nodes whose kubelet settings name none (LCH-40).

What may go wrong: a cluster without that service, or one that we may not read. Then nodes get no address from us, and
their image takes the usual one of the cluster's service range.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.concurrency.clock import Clock
from shared.errors import NotFound, Unauthorized
from shared.kube.client import Kube
from shared.kube.resources import SERVICES
from shared.log import get_logger

log = get_logger(__name__)

NAMESPACE, NAME = "kube-system", "kube-dns"
ADDRESS_FRESH_SECONDS = 300.0
HEADLESS = "None"


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
