"""What a scheduler serves about the cluster: as it is now, by the leader alone (MET-03, MET-05, MET-08, MET-13)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from services.scheduler.status.cluster_metrics import ClusterMetrics
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.domain.workloads.pods import Owner
from shared.runtime.leadership import Leadership
from tests.services.scheduler.conftest import Scheduler
from tests.support.clock.fake import FakeClock
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_bound_pod, make_node, make_pool
from tests.support.planning.devices import (
    GPU,
    allocated,
    gpus,
    make_resource_claim,
    make_slice,
    spec_of,
    want,
)

OURS = {keys.PROVISIONER_NAME: "default", keys.INSTANCE_TYPE: "m5.x004"}
ALLOCATABLE, REQUESTS = "karpenter_nodes_allocatable", "karpenter_nodes_total_pod_requests"

OLD_PRICE = "karpenter_cloudprovider_instance_type_price_estimate"


@dataclass
class Lead(Leadership):
    """A lead that is given and taken by the test."""

    leads: bool = True

    @property
    def held(self) -> bool:
        return self.leads


@pytest.fixture
def served(scheduler: Scheduler) -> ClusterMetrics:
    """As the service wires it."""
    made = scheduler.parts.cluster_metrics
    made.metrics.add_page(made.text)
    return made


async def scrape(served: ClusterMetrics) -> Scraped:
    """As the status server does: in another thread."""
    return Scraped(await asyncio.to_thread(served.metrics.text))


async def test_a_scrape_tells_the_cluster_as_it_is(
    scheduler: Scheduler, served: ClusterMetrics
) -> None:
    """Also when a node or a pool went: nothing is left of it."""
    agent = make_bound_pod("agent", "b", cpu="1", owner=Owner("DaemonSet", "agent", "u"))
    await scheduler.show(
        nodes=[make_node("a", labels=OURS), make_node("b", labels=OURS), make_node("foreign")],
        pods=[make_bound_pod("web", "a", cpu="1"), agent],
        nodepools=[make_pool(limits={"cpu": 8000}, usage={"cpu": 4000})],
    )
    await served.refresh()
    scraped = await scrape(served)
    assert scraped.value("karpenter_cluster_state_synced") == 1
    assert scraped.value("karpenter_cluster_state_node_count") == 3
    assert scraped.of(ALLOCATABLE, "node_name").keys() == {"a", "b", "foreign"}
    ages = scraped.of("karpenter_nodes_current_lifetime_seconds", "node_name")
    assert ages.keys() == {"a", "b", "foreign"}
    assert scraped.of("karpenter_provisioner_usage_pct", "provisioner") == {"default": 50}
    price = "karpenter_cloudprovider_instance_type_offering_price_estimate"
    assert scraped.of(price, "instance_type")
    assert scraped.of(OLD_PRICE, "instance_type")
    await scheduler.show(
        gone=[("nodes", "a"), ("pods", "default/web"), ("nodepools", "Provisioner/default")]
    )
    await served.refresh()
    scraped = await scrape(served)
    assert scraped.value("karpenter_cluster_state_node_count") == 2
    assert scraped.of(ALLOCATABLE, "node_name").keys() == {"b", "foreign"}
    assert scraped.of(REQUESTS, "node_name").keys() == {"b", "foreign"}
    assert scraped.of("karpenter_nodepools_usage", "nodepool") == {}
    assert scraped.of(OLD_PRICE, "instance_type") == {}


async def test_the_cluster_is_not_told_where_that_is_switched_off(
    scheduler: Scheduler, served: ClusterMetrics
) -> None:
    """DISABLE_CLUSTER_STATE_OBSERVABILITY: whether the picture may be relied on is said all the same."""
    changed = {"disable_cluster_state_observability": True}
    served.cluster.settings = served.cluster.settings.model_copy(update=changed)
    await scheduler.show(nodes=[make_node("a", labels=OURS)], nodepools=[make_pool()])
    await served.refresh()
    scraped = await scrape(served)
    assert scraped.of(ALLOCATABLE, "node_name") == {}
    assert scraped.of("karpenter_nodepools_usage", "nodepool") == {}
    assert scraped.value("karpenter_cluster_state_synced") == 1


async def test_a_standby_says_only_whether_it_could_lead(
    scheduler: Scheduler, served: ClusterMetrics
) -> None:
    """MET-13: the leader's gauges are gone from here, those of its plans and budgets too."""
    lead = served.leadership = Lead(None, SystemClock())
    metrics = served.metrics
    await scheduler.show(nodes=[make_node("a", labels=OURS)])
    await served.refresh()
    metrics.allowed_disruptions.replace({("default", "Empty"): 3})
    assert (await scrape(served)).of(ALLOCATABLE, "node_name").keys() == {"a"}
    lead.leads = False
    await served.refresh()
    scraped = await scrape(served)
    assert scraped.of(ALLOCATABLE, "node_name") == {}
    assert scraped.of("karpenter_nodepools_allowed_disruptions", "nodepool") == {}
    assert scraped.value("karpenter_cluster_state_node_count") is None
    assert scraped.value("karpenter_cluster_state_synced") == 1


async def test_the_last_picture_stands_while_the_mirror_is_lost(
    scheduler: Scheduler, served: ClusterMetrics
) -> None:
    """OPS-13: nothing is decided by an incomplete mirror; MET-08: metrics of the cluster's state."""
    clock = served.clock = FakeClock()
    await scheduler.show(nodes=[make_node("a", labels=OURS)])
    await served.refresh()
    scheduler.reader.complete = False
    clock.advance(7)
    await served.refresh()
    scraped = await scrape(served)
    assert scraped.value("karpenter_cluster_state_synced") == 0
    assert scraped.value("karpenter_cluster_state_unsynced_time_seconds") == 7
    assert scraped.of(ALLOCATABLE, "node_name").keys() == {"a"}


async def test_devices_and_claims_are_served_where_they_are_watched(
    scheduler: Scheduler, served: ClusterMetrics
) -> None:
    """DRA-09: as any other gauge of the cluster."""
    claim = make_resource_claim(spec_of(want()), **allocated("a", "gpu-0"))
    await scheduler.show(resourceslices=[make_slice("a", gpus(4))], resourceclaims=[claim])
    await served.refresh()
    page = await scrape(served)
    assert page.value("dovetail_devices", driver=GPU, state="held") == 1
    assert page.value("dovetail_resource_claims", state="allocated") == 1
