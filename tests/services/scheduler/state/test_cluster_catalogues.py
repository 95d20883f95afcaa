"""A plan goes by offers that cover what the mirror shows: reservations of the class as it is now, overlays as they are
now (IT-04, SCH-105, NO-01)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.scheduler.state.cluster import catalogue_source
from shared.api.v1.node_pools import parse_node_pool
from shared.domain import labels as keys
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.overlays import Overlay
from shared.domain.instance_types.reservations import Reservation, merged
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import NodeClass, NodePool, SelectorTerm
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.reservations import (
    NOT_READ,
    RESERVATIONS_TTL_SECONDS,
    ReservationStore,
)
from tests.services.conftest import create_node_pool
from tests.services.scheduler.conftest import Scheduler
from tests.support.planning.builders import ZONES, make_node_class, make_pod
from tests.support.waiting import wait_until

CAPACITY = {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.RESERVED, keys.ON_DEMAND]}
TYPES = {"key": keys.INSTANCE_TYPE, "operator": "Exists"}
FREE = Reservation("cr-1", "m5.x004", ZONES[0], left=2, counted_at=9.0)


def selecting(**changes: Any) -> NodeClass:
    """A ready class that selects reservations."""
    terms = (SelectorTerm(match_criteria="open"),)
    fields = {"generation_api": V1, "generation": 3, "reservation_terms": terms, **changes}
    return make_node_class(**fields)


async def pool_of(kube: Kube) -> NodePool:
    return parse_node_pool(await create_node_pool(kube, requirements=[TYPES, CAPACITY])).require("")


async def bought(kube: Kube) -> list[str]:
    """Capacity types of the claims that there are."""
    claims = (await kube.list(NODE_CLAIMS)).items
    found = []
    for claim in claims:
        rules = {one["key"]: one.get("values") for one in claim["spec"]["requirements"]}
        found += rules[keys.CAPACITY_TYPE]
    return found


@pytest.fixture
def store(bus: Bus, scheduler: Scheduler) -> ReservationStore:
    """The launcher's pen; the scheduler reads as the service does."""
    gates = FeatureGates(node_overlay=True)
    view = scheduler.view
    scheduler.cluster.catalogues = catalogue_source(bus, gates, view)
    return ReservationStore(bus.redis, bus.prefix)


@pytest.mark.parametrize("known", [None, {"uid": "of-a-namesake"}, {"generation": 2}])
async def test_nothing_is_bought_for_a_class_whose_reservations_nobody_has_read(
    scheduler: Scheduler, kube: Kube, store: ReservationStore, known: dict[str, Any] | None
) -> None:
    """A Ready class alone is no proof: what is known of its namesake or of an earlier version says nothing of it."""
    if known is not None:
        await store.put(selecting(**known), [FREE])
    await scheduler.show(
        nodeclasses=[selecting()], nodepools=[await pool_of(kube)], pods=[make_pod("web")]
    )
    await scheduler.plan()
    assert await bought(kube) == []
    (reason,) = scheduler.planner.reporter.last_reasons.values()
    assert NOT_READ in reason


@pytest.mark.slow
async def test_the_pool_is_planned_as_soon_as_they_are_known(
    scheduler: Scheduler, kube: Kube, store: ReservationStore
) -> None:
    """And then it takes the place that is paid for. No message and no other change is needed."""
    await scheduler.show(
        nodeclasses=[selecting()], nodepools=[await pool_of(kube)], pods=[make_pod("web")]
    )
    await scheduler.plan()
    assert scheduler.planner.rounds == 1
    await store.put(selecting(), [FREE])
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(scheduler.planner.run(stop))
        planner = scheduler.planner
        await wait_until(
            lambda: planner.last_plan is not None and bool(planner.last_plan.machines),
            "the pod is planned",
        )
        stop.set()
    assert await bought(kube) == [keys.RESERVED]


async def test_other_classes_do_not_wait_for_it(
    scheduler: Scheduler, kube: Kube, store: ReservationStore
) -> None:
    """One class without terms, one that selects nothing that is free: both are planned."""
    await store.put(selecting(), [])
    await scheduler.show(
        nodeclasses=[selecting(), selecting(name="other", uid="other")],
        nodepools=[await pool_of(kube)],
        pods=[make_pod("web")],
    )
    await scheduler.plan()
    assert await bought(kube) == [keys.ON_DEMAND]


async def test_what_is_known_of_a_class_ends_with_the_launcher(
    bus: Bus, store: ReservationStore
) -> None:
    """Who is away cannot say what is left."""
    await store.put(selecting(), [FREE])
    key = f"{bus.prefix}reservations:class-default:3"
    assert 0 < await bus.redis.ttl(key) <= RESERVATIONS_TTL_SECONDS
    await bus.redis.set(key, b"another version's")
    assert await store.get([selecting()]) == {}


def test_a_reservation_that_several_classes_select_is_offered_once_by_its_latest_count() -> None:
    """Each class has its own record, and not at the same moment."""
    later = Reservation("cr-1", "m5.x004", ZONES[0], left=1, counted_at=10.0)
    (found,) = merged({"EC2NodeClass/b": [FREE], "EC2NodeClass/a": [later]})
    assert (found.left, found.counted_at) == (1, 10.0)
    assert found.node_classes == ("EC2NodeClass/a", "EC2NodeClass/b")


async def test_an_overlay_corrects_the_first_plan_after_it_and_none_after_its_end(
    scheduler: Scheduler, store: ReservationStore
) -> None:
    """NO-01: nothing stands between the overlay in the mirror and the prices of a plan."""

    async def price() -> int:
        catalogue = await scheduler.cluster.catalogues.get()
        assert catalogue is not None
        return min(o.price_micro_usd_per_hour for o in catalogue.types[0].offerings)

    before = await price()
    cheap = Overlay("u", "cheap", price_micro_usd_per_hour=7)
    await scheduler.show(nodeoverlays=[cheap])
    assert await price() == 7
    other = Overlay("v", "other", price_micro_usd_per_hour=8)
    await scheduler.show(nodeoverlays=[other])
    assert await price() == before, "two of one weight that contradict each other hold nowhere"
    await scheduler.show(gone=[("nodeoverlays", "cheap"), ("nodeoverlays", "other")])
    assert await price() == before
