"""The address of the cluster's DNS (LCH-40)."""

from __future__ import annotations

from services.launcher.cluster import ADDRESS_FRESH_SECONDS, ClusterDns
from shared.kube.client import Kube
from shared.kube.resources import SERVICES
from tests.support.clock.fake import FakeClock


async def create_service(kube: Kube, address: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": address, "ports": [{"port": 53, "protocol": "UDP"}]},
    }
    await kube.create(SERVICES, body, namespace="kube-system")


async def test_it_is_that_of_kube_dns_and_is_asked_every_five_minutes(
    kube: Kube, clock: FakeClock
) -> None:
    dns = ClusterDns(kube, clock)
    assert await dns.address() is None
    await create_service(kube, "10.100.0.10")
    assert await dns.address() is None
    clock.advance(ADDRESS_FRESH_SECONDS)
    assert await dns.address() == "10.100.0.10"


async def test_a_headless_service_has_none(kube: Kube, clock: FakeClock) -> None:
    await create_service(kube, "None")
    assert await ClusterDns(kube, clock).address() is None
