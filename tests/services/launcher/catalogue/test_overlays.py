"""From NodeOverlays on the API server to the prices that decide (NO-01, LCH-51)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from services.launcher.catalogue.overlays import (
    GATE_OFF,
    LIST_FRESH_SECONDS,
    Overlays,
    overlaid_catalogues,
)
from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue, encode_catalogue, of_pool
from shared.kube.client import Kube
from shared.kube.resources import NODE_OVERLAYS, NODE_POOLS, PROVISIONERS
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from shared.redis.mirror.catalogue.overlays import OverlaidCatalogues
from tests.support.clock.fake import FakeClock

Look = Callable[..., Any]
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
ONLY_LARGE = {"key": keys.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}


@pytest.fixture
async def source(
    kube: Kube, bus: Bus, clock: FakeClock, catalogue: Catalogue
) -> OverlaidCatalogues:
    """What launches go by."""
    store = CatalogueStore(bus.redis, bus.prefix)
    await store.put(encode_catalogue(catalogue), catalogue.generation)
    return overlaid_catalogues(store, kube, clock)


async def create(kube: Kube, name: str, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"requirements": [], **spec}}
    await kube.create(NODE_OVERLAYS, body)


async def ready(kube: Kube) -> dict[str, tuple[str, str]]:
    """Name -> status and reason of its condition Ready."""
    listed = (await kube.list(NODE_OVERLAYS)).items
    conditions = {one["metadata"]["name"]: one["status"]["conditions"] for one in listed}
    return {name: (one["status"], one["reason"]) for name, (one,) in conditions.items()}


async def test_overlays_say_whether_they_hold_and_those_that_do_decide(
    kube: Kube, bus: Bus, clock: FakeClock, source: OverlaidCatalogues
) -> None:
    """NO-01: equal weights that disagree are not ready; a deleted overlay corrects nothing any more."""
    await create(kube, "cheap", requirements=[ONLY_LARGE], price="0.01", weight=5)
    await create(kube, "left", capacity={"example.com/a": "1"})
    await create(kube, "right", capacity={"example.com/a": "2"})
    plain = CatalogueStore(bus.redis, bus.prefix)
    assert await cheapest(source) == 10_000, "a launch does not wait for what is said of overlays"
    overlays = Overlays(kube, plain, clock, enabled=True)
    await overlays.check_all()
    assert await ready(kube) == {
        "cheap": ("True", "Ready"),
        "left": ("False", "Conflict"),
        "right": ("False", "Conflict"),
    }
    versions = [
        one["metadata"]["resourceVersion"] for one in (await kube.list(NODE_OVERLAYS)).items
    ]
    await overlays.check_all()
    assert versions == [
        one["metadata"]["resourceVersion"] for one in (await kube.list(NODE_OVERLAYS)).items
    ]
    await kube.delete(NODE_OVERLAYS, "cheap")
    await kube.delete(NODE_OVERLAYS, "left")
    clock.advance(LIST_FRESH_SECONDS)
    assert await cheapest(source) == 96_000
    await overlays.check_all()
    assert await ready(kube) == {"right": ("True", "Ready")}


async def cheapest(source: OverlaidCatalogues, pool: str = "") -> int:
    """Of m5.large, by what decides."""
    catalogue = await source.get()
    assert catalogue is not None
    (large,) = (kind for kind in catalogue.types if kind.name == "m5.large")
    offerings = of_pool(large, pool).offerings
    return min(offering.price_micro_usd_per_hour for offering in offerings)


async def test_what_requires_labels_of_a_pool_holds_for_its_machines_alone(
    kube: Kube, bus: Bus, clock: FakeClock, source: OverlaidCatalogues, catalogue: Catalogue
) -> None:
    """Equal weights that disagree about different pools are ready; the pools are as they are at the launch."""
    await kube.create(
        PROVISIONERS, {"metadata": {"name": "red"}, "spec": {"providerRef": {"name": "default"}}}
    )
    for name, price in (("red", "0.01"), ("blue", "0.02")):
        wanted = {"key": keys.PROVISIONER_NAME, "operator": "In", "values": [name]}
        await create(kube, name, requirements=[ONLY_LARGE, wanted], price=price)
    assert await cheapest(source) == 96_000
    assert await cheapest(source, "Provisioner/red") == 10_000
    assert await cheapest(source, "Provisioner/blue") == 96_000
    await Overlays(kube, CatalogueStore(bus.redis, bus.prefix), clock, enabled=True).check_all()
    assert await ready(kube) == {"red": ("True", "Ready"), "blue": ("True", "Ready")}
    await kube.create(
        PROVISIONERS, {"metadata": {"name": "blue"}, "spec": {"providerRef": {"name": "default"}}}
    )
    clock.advance(LIST_FRESH_SECONDS)
    assert await cheapest(source, "Provisioner/blue") == 20_000


async def test_an_overlay_that_corrects_nothing_says_why(
    kube: Kube, bus: Bus, clock: FakeClock, source: OverlaidCatalogues
) -> None:
    """NO-01: a misspelled pool or type is ready, as the pool may come later, and its condition has the reason."""
    nowhere = {"key": keys.NODE_POOL, "operator": "In", "values": ["nowhere"]}
    unknown = {"key": keys.INSTANCE_TYPE, "operator": "In", "values": ["m5.lagre"]}
    await create(kube, "pool", requirements=[ONLY_LARGE, nowhere], price="0.01")
    await create(kube, "type", requirements=[unknown], price="0.01")
    await create(kube, "used", requirements=[ONLY_LARGE], price="0.01")
    await Overlays(kube, CatalogueStore(bus.redis, bus.prefix), clock, enabled=True).check_all()
    assert set((await ready(kube)).values()) == {("True", "Ready")}
    assert await messages(kube) == {
        "pool": "it has no effect: no pool has karpenter.sh/nodepool In [nowhere]",
        "type": "it has no effect: no instance type of the region has node.kubernetes.io/instance-type In [m5.lagre]",
        "used": "",
    }
    pool = {"template": {"spec": {"requirements": [], "nodeClassRef": CLASS}}}
    await kube.create(NODE_POOLS, {"metadata": {"name": "nowhere"}, "spec": pool})
    await Overlays(kube, CatalogueStore(bus.redis, bus.prefix), clock, enabled=True).check_all()
    assert (await messages(kube))["pool"] == ""


async def messages(kube: Kube) -> dict[str, str]:
    """Name -> message of its condition Ready."""
    listed = (await kube.list(NODE_OVERLAYS)).items
    return {one["metadata"]["name"]: one["status"]["conditions"][0]["message"] for one in listed}


async def test_without_the_gate_nothing_is_corrected_and_each_overlay_says_so(
    kube: Kube, bus: Bus, clock: FakeClock, catalogue: Catalogue
) -> None:
    """OPS-02: feature gates."""
    await create(kube, "cheap", price="0.01")
    store = CatalogueStore(bus.redis, bus.prefix)
    await store.put(encode_catalogue(catalogue), catalogue.generation)
    await Overlays(kube, store, clock, enabled=False).check_all()
    assert await ready(kube) == {"cheap": ("False", GATE_OFF[0])}
    await Overlays(kube, store, clock, enabled=True).check_all()
    assert await ready(kube) == {"cheap": ("True", "Ready")}
