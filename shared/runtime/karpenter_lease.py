"""Karpenter and Dovetail in one cluster: at any time at most one of them acts.

Both act on the same kinds, and Karpenter has no notion of a pool that is not its own. But Karpenter acts only while it
holds its leader election's Lease. Dovetail takes part in the same election: all services together are one candidate,
``HOLDER``. While Karpenter holds the Lease every loop that acts waits, and while Dovetail holds it a Karpenter that is
started, by hand or by a GitOps controller, waits too.

Any of the services renews the Lease for all, so none frees it when it stops. When all have stopped it expires after
15 s. The annotation ``GIVE_BACK`` makes each of them stop when it sees it, and keeps them from taking it again. None of
them frees the Lease, since another one may still act: whoever wrote the annotation waits until nobody has renewed the
Lease for ``QUIET_SECONDS``, and frees it then.

What may go wrong: the API server is unreachable for a service. It stops acting after 10 s, although others may still
hold the Lease. Calls that are already sent cannot be revoked, as with every Lease: no more than with Karpenter's own
second replica.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from shared.concurrency.clock import Clock
from shared.kube.client import Kube
from shared.kube.lease import Lease, LeaseTimes
from shared.runtime.leadership import Leadership
from shared.runtime.services import Service

HOLDER = "dovetail"
GIVE_BACK = "dovetail.sh/give-back"
SCOPE = "karpenter "
QUIET_SECONDS = LeaseTimes().renew_deadline + 1.0
"""After the last renewal: by then every service has stopped, also one that cannot reach the API server."""


def karpenter_lease(
    kube: Kube, namespace: str, name: str, *, clock: Clock, random: Random
) -> Lease:
    """The candidate that all services are together."""
    return Lease(
        kube, name, namespace, HOLDER, clock=clock, random=random, barred_by=GIVE_BACK, shared=True
    )


def take_turns(service: Service, lease: Lease, clock: Clock) -> None:
    """Change ``service``: its loops run only while the Lease is held, and it says so when it waits."""
    turns = Leadership(lease, clock, SCOPE)
    inner = service.missing
    service.missing = _missing(turns, lease, inner)
    service.loops = [*map(turns.led, service.loops), *turns.loops()]


def _missing(
    turns: Leadership, lease: Lease, inner: Callable[[], list[str]]
) -> Callable[[], list[str]]:
    def missing() -> list[str]:
        if turns.held:
            return inner()
        return [f"the Lease {lease.namespace}/{lease.name} is not held: Karpenter may act"]

    return missing
