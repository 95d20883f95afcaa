"""Whoever reaches Redis cannot spend money through the mirror (BAT-05, OPS-13)."""

from __future__ import annotations

import msgspec
import pytest

from shared.kube.client import Kube
from shared.kube.resources import MACHINES
from shared.redis.bus import Bus
from shared.redis.bus.connection import call
from shared.redis.mirror.change import MirrorKeys
from tests.services.scheduler.conftest import Scheduler, pool_of
from tests.support.cluster.real_pods import store_pods
from tests.support.planning.builders import make_bound_pod, make_node, make_pod, make_pods
from tests.support.waiting import wait_until


async def hashed(bus: Bus, kind: str, key: str) -> bytes | None:
    """The stored value, with its tag."""
    name = MirrorKeys(bus.prefix).objects(kind)
    found: bytes | None = await call(bus.redis, "read the mirror", "HGET", name, key)
    return found


async def write(bus: Bus, kind: str, key: str, value: bytes | None) -> None:
    """Past the watcher; None deletes."""
    name = MirrorKeys(bus.prefix).objects(kind)
    words = ("HDEL", name, key) if value is None else ("HSET", name, key, value)
    await call(bus.redis, "forge an entry", *words)


async def reset(bus: Bus) -> None:
    """Make readers load what is in the hashes."""
    await call(bus.redis, "forge a reset", "XADD", f"{bus.prefix}cluster", "*", "op", "reset")


async def bought(kube: Kube) -> int:
    return len((await kube.list(MACHINES)).items)


@pytest.mark.slow
async def test_twenty_forged_pods_and_a_reset_buy_nothing(
    scheduler: Scheduler, kube: Kube, bus: Bus
) -> None:
    """The pods are on the API server, so that nothing else would stop it; one entry has the tag of another."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_bound_pod("runs", "n")])
    forged = make_pods(20, cpu="15")
    await store_pods(kube, forged)
    tag = (await hashed(bus, "pods", "default/runs") or b"")[:16]
    for number, pod in enumerate(forged):
        value = (tag if number % 2 else b"") + msgspec.json.encode(pod)
        await write(bus, "pods", pod.key, value)
    await reset(bus)
    await wait_until(lambda: scheduler.reader.rejected >= 20, "the forged entries are noticed")
    await scheduler.plan_refused()
    assert "did not write" in scheduler.planner.problem
    assert set(scheduler.reader.kinds["pods"]) == {"default/runs"}
    assert await bought(kube) == 0


@pytest.mark.slow
async def test_a_bound_pod_that_is_made_to_wait_again_buys_nothing(
    scheduler: Scheduler, kube: Kube, bus: Bus
) -> None:
    """A replay: the entry was right once."""
    pool = await pool_of(kube)
    await scheduler.show(nodepools=[pool], nodes=[make_node("n")], pods=[make_pod("web")])
    waiting = await hashed(bus, "pods", "default/web")
    await scheduler.show_only(pods=[make_bound_pod("web", "n")])
    await write(bus, "pods", "default/web", waiting)
    await reset(bus)
    await wait_until(lambda: "the picture of pods" in scheduler.reader.doubt, "the replay")
    await scheduler.plan_refused()
    assert await bought(kube) == 0


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["nodes", "machines"])
async def test_deleted_capacity_is_not_bought_again(
    scheduler: Scheduler, kube: Kube, bus: Bus, gone: str
) -> None:
    """The pod fits on what is there: without it in the picture it would be bought for."""
    pool = await pool_of(kube)
    await scheduler.show(nodepools=[pool], pods=[make_pod("web")])
    await scheduler.plan("a")
    (machine,) = scheduler.view.machines()
    await scheduler.show_only(machines=[machine], nodes=[make_node("n")])
    await write(bus, gone, machine.key if gone == "machines" else "n", None)
    await reset(bus)
    await wait_until(lambda: f"the picture of {gone}" in scheduler.reader.doubt, "the deletion")
    await scheduler.show_only(pods=[make_pod("more", cpu="2")])
    await scheduler.plan_refused("b")
    assert await bought(kube) == 1


async def test_nothing_is_disrupted_on_a_picture_that_is_not_the_watchers(
    scheduler: Scheduler, kube: Kube, bus: Bus
) -> None:
    """Forged deletions of pods make nodes look empty; the step does not even begin."""
    await scheduler.show(
        nodepools=[await pool_of(kube)], nodes=[make_node("n")], pods=[make_bound_pod("web", "n")]
    )
    await write(bus, "pods", "default/web", None)
    await reset(bus)
    await wait_until(lambda: "the picture of pods" in scheduler.reader.doubt, "the deletion")
    before = scheduler.disruption.findings.candidates
    await scheduler.disruption.step()
    assert scheduler.disruption.findings.candidates == before == ()
    assert scheduler.cluster.not_synced()
