"""The services lose the API server for a while, or one of their watches, while the cluster goes on (F15;
R8, BAT-05, OPS-13).

What must hold afterwards: the mirror is equal to the cluster, nothing is bought for what is gone, nothing is bought
twice; and while the watcher is blind it says so.
"""

from __future__ import annotations

import asyncio
import math
import time
from random import Random

import pytest

from cli.demo import workload
from shared.domain.records import PODS as PODS_KIND
from shared.kube.resources import NODE_CLAIMS, PODS
from tests.support.stories.gaps.api_proxy import ApiProxy, proxied_stack
from tests.support.stories.gaps.happenings import happen
from tests.support.stories.gaps.observing import (
    Purchases,
    Said,
    assert_mirror_follows,
    is_not_ready,
    is_ready,
    listening,
    mirrored,
    reached,
)
from tests.support.stories.gaps.workload import PODS_PER_NODE, calm, room, workload_of
from tests.support.stories.playground import (
    NAMESPACE,
    POLL_SECONDS,
    Playground,
    playground_on,
    until,
)

pytestmark = pytest.mark.e2e

GAP_SECONDS = 6.0
"""Enough for every watch to give up and to begin with a new list."""
LONG_GAP_SECONDS = 20.0
BLIND_SECONDS = 4.0
"""So long the API server may be away until the watcher says that it is not ready,"""
NAMED_SECONDS = 8.0
"""and so long until it says which kinds it does not see."""
FOLLOWS_SECONDS = 10.0
"""After a gap, until the mirror is right again."""
READY_SECONDS = 40.0
"""After a gap, until the watcher is ready: a loop that failed again and again starts half a minute later at most."""
STALL_SECONDS = 120.0
SLOW_BOOT_SECONDS = 60.0
SILENT_SECONDS = 80.0
"""So long a watch may tell nothing until this is told; bookmarks come every minute at the latest."""
NIGHTLY_SEEDS = 10


async def scaled_to_nothing(ground: Playground, *apps: str) -> None:
    """Until the last of their pods is gone."""
    for app in apps:
        await ground.kube.patch(workload.DEPLOYMENTS, app, {"spec": {"replicas": 0}}, NAMESPACE)

    async def gone() -> bool:
        return not (await ground.kube.list(PODS, NAMESPACE)).items

    await until(gone, f"no pod of {apps}")


async def test_what_goes_in_a_gap_is_neither_served_nor_kept(
    playground: Playground, api_proxy: ApiProxy
) -> None:
    """Six pods run and twelve wait; all are gone when the services see the cluster again. Nothing is bought for the
    twelve, and the nodes of the six go."""
    await workload_of(playground, 2 * PODS_PER_NODE)
    await reached(playground, "six pods run", calm(2 * PODS_PER_NODE))
    async with playground.standing_still("scheduler"):
        await workload_of(playground, 4 * PODS_PER_NODE, "late")
        await until(
            lambda: mirrors_pods_of(playground, "late", 12), "twelve waiting pods are mirrored"
        )
        api_proxy.cut()
        await scaled_to_nothing(playground, workload.WORKLOAD, "late")
    await asyncio.sleep(GAP_SECONDS)  # the gap itself
    purchases = await Purchases.since_now(playground)
    api_proxy.heal()
    await assert_mirror_follows(playground, FOLLOWS_SECONDS)
    nothing = ((), (), ())
    await reached(
        playground,
        "nothing is left",
        lambda now: (now.machines, now.nodes, now.live_instances) == nothing,
        purchases,
    )
    assert purchases.bought == {}


async def mirrors_pods_of(ground: Playground, app: str, count: int) -> bool:
    """Whether the mirror has so many pods of one Deployment."""
    pods = (await mirrored(ground))[PODS_KIND]
    return sum(key.startswith(f"{NAMESPACE}/{app}-") for key in pods) == count


async def a_gap(ground: Playground, proxy: ApiProxy, seed: int, seconds: float) -> None:
    """Pods, nodes and machines go and come unseen. Afterwards all is as it must be."""
    random = Random(seed)
    replicas = 3 * PODS_PER_NODE
    await workload_of(ground, replicas)
    await reached(ground, "nine pods run", calm(replicas))
    async with listening(ground, "watcher") as said:
        began = time.monotonic()
        proxy.cut()
        person = await happen(ground, random, seconds, replicas)
        purchases = await Purchases.since_now(ground)
        proxy.heal()
    story = f"seed {seed}: {person.done}"
    assert_blindness_was_told(said, began, story)
    try:
        await assert_mirror_follows(ground, FOLLOWS_SECONDS)
        now = await reached(ground, "calm", calm(person.replicas), purchases)
        await is_ready(ground, "watcher", READY_SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{story}: {error}") from error
    assert purchases.for_nobody == set(), story
    if purchases.bought:
        assert room(now) < PODS_PER_NODE, f"bought twice: {purchases.bought} ({story})"


def assert_blindness_was_told(said: list[Said], began: float, story: str) -> None:
    """The watcher was not ready, and so it stayed; where the gap was long enough, it named the watch."""
    blind = [one for one in said if one.at > began + BLIND_SECONDS]
    assert blind, "asked too seldom"
    assert all(one.reasons for one in blind), f"said to be ready while blind ({story})"
    for one in said:
        if one.at > began + NAMED_SECONDS:
            assert any("pods have not been watched" in reason for reason in one.reasons), one


async def test_a_gap_in_which_much_happens_is_made_up_for(
    playground: Playground, api_proxy: ApiProxy
) -> None:
    """One of the gaps below, shorter."""
    await a_gap(playground, api_proxy, 7, GAP_SECONDS)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(NIGHTLY_SEEDS))
async def test_gaps_in_which_much_happens_are_made_up_for(
    playground: Playground, api_proxy: ApiProxy, seed: int
) -> None:
    """Twenty seconds each."""
    await a_gap(playground, api_proxy, seed, LONG_GAP_SECONDS)


async def a_watch_that_tells_nothing(ground: Playground, proxy: ApiProxy, seconds: float) -> None:
    """Six pods wait, two machines are made for them, and so long nobody hears of these: there is never a third."""
    proxy.stall_watches_of(NODE_CLAIMS)
    await workload_of(ground, 2 * PODS_PER_NODE)
    claims: set[str] = set()
    ends = math.inf
    while time.monotonic() < ends:
        claims |= {raw["metadata"]["uid"] for raw in (await ground.kube.list(NODE_CLAIMS)).items}
        if claims and ends == math.inf:
            ends = time.monotonic() + seconds
        await asyncio.sleep(POLL_SECONDS)
    assert proxy.half_open
    assert len(claims) == 2
    proxy.heal()
    now = await reached(ground, "six pods run", calm(2 * PODS_PER_NODE))
    assert len(now.machines) == 2


@pytest.mark.nightly
async def test_machines_that_no_watch_shows_are_not_bought_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """BAT-05: two minutes of it; nodes take a minute to boot. Watcher and scheduler say that they are blind."""
    with proxied_stack(tmp_path_factory, boot_seconds=SLOW_BOOT_SECONDS) as proxied:
        async with playground_on(proxied.stack) as ground:
            proxied.proxy.stall_watches_of(NODE_CLAIMS)
            stall = asyncio.create_task(
                a_watch_that_tells_nothing(ground, proxied.proxy, STALL_SECONDS)
            )
            for service in ("watcher", "scheduler"):
                await is_not_ready(ground, service, SILENT_SECONDS, NODE_CLAIMS.plural)
            await stall
            for service in ("watcher", "scheduler"):  # the latest watch may be a half-open one, too
                await is_ready(ground, service, SILENT_SECONDS + READY_SECONDS)
