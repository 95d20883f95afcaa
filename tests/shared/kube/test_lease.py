"""Leader election and the fencing epoch (F14, F13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from aiohttp import web

from shared.kube.client import Kube
from shared.kube.lease import SPREAD, Lease, LeaseTimes, current_epoch, read_record
from shared.kube.resources import LEASES
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import Cluster, eventually
from tests.support.cluster.scripted_api import ScriptedApi, Step, answer, refusal

NAME = "dovetail-scheduler"


QUICK = LeaseTimes(duration=15, renew_deadline=10, retry_period=0.01)
SLOW = LeaseTimes(duration=900, renew_deadline=800, retry_period=600)
"""Whoever waits for the next look waits longer than a test may take."""


def candidate(
    kube: Kube, namespace: str, identity: str, clock: FakeClock, times: LeaseTimes = QUICK
) -> Lease:
    """Fast rounds in real time; the 15/10 s rules on the fake clock."""
    return Lease(
        kube,
        name=NAME,
        namespace=namespace,
        identity=identity,
        clock=clock,
        random=Random(5),
        times=times,
    )


@asynccontextmanager
async def running(lease: Lease) -> AsyncIterator[Lease]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(lease.run(stop))
        yield lease
        stop.set()


async def rounds(lease: Lease, clock: FakeClock) -> None:
    """Wait until ``lease`` had two more looks at the server."""
    for _ in range(2):
        clock.advance(0.001)
        now = clock.monotonic()
        await eventually(lambda now=now: lease.last_progress >= now)


async def test_the_first_candidate_leads_and_releases_on_stop(cluster: Cluster) -> None:
    clock = FakeClock()
    async with running(candidate(cluster.kube, cluster.namespace, "a", clock)) as a:
        await a.acquired.wait()
        assert a.held
        assert a.epoch == await current_epoch(cluster.kube, NAME, cluster.namespace) == 0
    assert not a.held
    lease = await cluster.kube.get(LEASES, NAME, cluster.namespace)
    assert read_record(lease).holder == ""


async def test_a_released_lease_is_taken_at_once_with_a_higher_epoch(cluster: Cluster) -> None:
    clock = FakeClock()
    async with running(candidate(cluster.kube, cluster.namespace, "a", clock)) as a:
        await a.acquired.wait()
    async with running(candidate(cluster.kube, cluster.namespace, "b", clock)) as b:
        await b.acquired.wait()
        assert b.epoch == a.epoch + 1


@pytest.mark.parametrize("how", ["released", "deleted"])
async def test_a_standby_sees_at_once_that_the_lease_is_free(cluster: Cluster, how: str) -> None:
    """OPS-11: by a watch, long before its next look."""
    clock, here = FakeClock(), cluster.namespace
    holder, standby = (candidate(cluster.kube, here, name, clock, SLOW) for name in ("a", "b"))
    async with running(holder):
        await holder.acquired.wait()
        clock.advance(1)
        async with running(standby):
            await eventually(lambda: standby.last_progress == clock.monotonic())
            assert not standby.held
            if how == "released":
                await cluster.kube.patch(LEASES, NAME, {"spec": {"holderIdentity": ""}}, here)
            else:
                await cluster.kube.delete(LEASES, NAME, here)
            await standby.acquired.wait()
            assert standby.epoch == holder.epoch + 1


async def test_a_standby_that_may_not_watch_looks_all_the_same(
    api: ScriptedApi, kube: Kube
) -> None:
    """As with the role of an earlier release, and it does not ask again and again."""
    held, free = (lease_of("other"), lease_of(""))
    api.lists, api.watches, api.others = [held, held, held, free], [refusal(403, "Forbidden")], [written]  # fmt: skip
    async with running(candidate(kube, "default", "b", FakeClock())) as standby:
        await standby.acquired.wait()
    assert len(api.queries(watch=True)) == 1


async def test_the_lease_of_another_program_is_not_watched(api: ScriptedApi, kube: Kube) -> None:
    """Karpenter's: the role that its chart gives does not allow it."""
    held, free = (lease_of("other"), lease_of(""))
    api.lists, api.others = [held, held, held, free], [written]
    standby = candidate(kube, "default", "b", FakeClock())
    standby.shared = True
    async with running(standby):
        await standby.acquired.wait()
    assert api.queries(watch=True) == []


def lease_of(holder: str) -> Step:
    """What an API server answers."""
    metadata = {"name": NAME, "namespace": "default", "resourceVersion": "3"}
    return answer({"metadata": metadata, "spec": {"holderIdentity": holder}})


async def test_a_second_candidate_waits_while_the_first_renews(cluster: Cluster) -> None:
    clock = FakeClock()
    a = candidate(cluster.kube, cluster.namespace, "a", clock)
    b = candidate(cluster.kube, cluster.namespace, "b", clock)
    async with running(a):
        await a.acquired.wait()
        async with running(b):
            for _ in range(4):
                clock.advance(6)
                await rounds(a, clock)
                await rounds(b, clock)
                assert a.held
                assert not b.held


async def test_a_stopped_holder_is_out_before_another_is_in(cluster: Cluster) -> None:
    """F14: SIGSTOP. The holder's own count ends at 10 s, the other's patience at 15 s."""
    clock = FakeClock()
    a = candidate(cluster.kube, cluster.namespace, "a", clock)
    await a._attempt()  # It never gets another turn.
    async with running(candidate(cluster.kube, cluster.namespace, "b", clock)) as b:
        await rounds(b, clock)
        clock.advance(9)
        assert a.held
        clock.advance(1)
        assert not a.held
        await rounds(b, clock)
        assert not b.held
        clock.advance(5)
        await b.acquired.wait()
        assert b.epoch == a.epoch + 1


async def test_wall_clock_jumps_change_nothing(cluster: Cluster) -> None:
    """F13: a jump of the clock."""
    clock = FakeClock()
    a = candidate(cluster.kube, cluster.namespace, "a", clock)
    async with running(a):
        await a.acquired.wait()
        async with running(candidate(cluster.kube, cluster.namespace, "b", clock)) as b:
            for jump in (86_400, -172_800):
                clock.wall += jump
                await rounds(a, clock)
                await rounds(b, clock)
                assert a.held
                assert not b.held


async def test_the_epoch_does_not_go_back_when_the_lease_is_deleted(cluster: Cluster) -> None:
    """I9: epochs never go backwards."""
    clock = FakeClock()
    async with running(candidate(cluster.kube, cluster.namespace, "a", clock)) as a:
        await a.acquired.wait()
    async with running(candidate(cluster.kube, cluster.namespace, "b", clock)) as b:
        await b.acquired.wait()
        before = b.epoch
        await cluster.kube.delete(LEASES, NAME, cluster.namespace)
        await eventually(lambda: b.epoch > before)


async def test_the_epoch_does_not_go_back_when_somebody_resets_it(cluster: Cluster) -> None:
    """I9: epochs never go backwards."""
    clock, here = FakeClock(), cluster.namespace
    for identity in ("a", "b"):
        async with running(candidate(cluster.kube, here, identity, clock)) as lease:
            await lease.acquired.wait()
    async with running(lease):
        await eventually(lambda: lease.held)
        before = lease.epoch
        free = {"holderIdentity": "", "leaseTransitions": 0}
        await cluster.kube.patch(LEASES, NAME, {"spec": free}, here)
        await eventually(lambda: lease.epoch > before)


async def test_a_holder_renews_without_reading(api: ScriptedApi, kube: Kube) -> None:
    """One request for each renewal: each leader renews every two seconds for as long as it lives."""
    clock = FakeClock()
    api.lists, api.others = [refusal(404, "NotFound")], [written]
    async with running(candidate(kube, "default", "a", clock)) as lease:
        await lease.acquired.wait()
        await rounds(lease, clock)
        assert lease.held
        methods = [seen.method for seen in api.requests]
    assert methods[:2] == ["GET", "POST"]
    assert set(methods[2:]) == {"PUT"}


async def test_a_holder_that_cannot_renew_reads_the_lease(cluster: Cluster) -> None:
    """Another writer made its version stale: it is read again in the same round, and stays held."""
    clock = FakeClock()
    async with running(candidate(cluster.kube, cluster.namespace, "a", clock)) as a:
        await a.acquired.wait()
        note = {"metadata": {"annotations": {"note": "changed"}}}
        await cluster.kube.patch(LEASES, NAME, note, cluster.namespace)
        await rounds(a, clock)
        assert a.held
        lease = await cluster.kube.get(LEASES, NAME, cluster.namespace)
    assert lease["metadata"]["annotations"] == {"note": "changed"}


async def written(request: web.Request) -> web.StreamResponse:
    """The sent object with a version, as an API server answers."""
    body = await request.json()
    body["metadata"] |= {"resourceVersion": "7", "uid": "u"}
    return web.json_response(body)


@pytest.mark.slow
async def test_a_holder_without_api_server_is_out_after_ten_seconds(
    api: ScriptedApi, kube: Kube
) -> None:
    clock = FakeClock()
    lease = candidate(kube, "default", "a", clock)
    lease._held_until = clock.monotonic() + 10
    lease.acquired.set()
    api.lists = api.others = [refusal(503, "ServiceUnavailable")]
    async with running(lease):
        await eventually(lambda: len(api.requests) > 0)
        assert lease.held
        clock.advance(10)
        assert not lease.held
        await eventually(lambda: not lease.acquired.is_set())


def test_times_must_leave_room_between_holders() -> None:
    with pytest.raises(ValueError, match="duration > renew_deadline"):
        LeaseTimes(duration=10, renew_deadline=10)


def test_a_renewal_that_hangs_costs_no_lease() -> None:
    """F14: the next one begins before the Lease of the one before has ended, whatever the random share of a pause."""
    times, longest = LeaseTimes(), SPREAD[1]
    before = times.pause(failed=False, share=longest)
    after = times.pause(failed=True, share=longest)
    assert before + times.longest_attempt + after < times.renew_deadline


def test_a_renewal_that_is_refused_is_repeated_several_times() -> None:
    times, longest = LeaseTimes(), SPREAD[1]
    left = times.renew_deadline - times.pause(failed=False, share=longest)
    assert left // times.pause(failed=True, share=longest) >= 5
