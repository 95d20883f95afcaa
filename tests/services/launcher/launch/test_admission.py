"""The last check before money is spent (BAT-08, F14, F25)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.launcher.launch.admission import epoch_of, first_made, is_stale
from shared.api.v1alpha5.machines import parse_machine
from shared.domain import labels as keys
from shared.domain.machines.machine import LAUNCHED, Machine
from shared.kube.client import Kube
from shared.kube.resources import LAUNCH_RECORDS, MACHINES, NODE_CLAIMS, NODE_POOLS, PROVISIONERS
from shared.redis.bus import Bus, RetryLater
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff
from tests.services.conftest import (
    Control,
    create_machine,
    create_node_claim,
    create_node_class,
    create_node_pool,
    create_pool,
)
from tests.services.launcher.conftest import Launcher
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_machine
from tests.support.redis.elapsing import elapse

Start = Callable[..., Launcher]


def made(epoch: int | None, at: float = 0.0) -> Machine:
    annotations = {} if epoch is None else {keys.EPOCH_ANNOTATION: str(epoch)}
    return make_machine(f"m-{epoch}-{at}", annotations=annotations, created_at=at)


def test_a_machine_without_an_epoch_is_of_the_first() -> None:
    """Written by hand, or by a build before there were epochs."""
    assert epoch_of(made(None)) == 0
    assert epoch_of(make_machine("m", annotations={keys.EPOCH_ANNOTATION: "next"})) == 0
    assert epoch_of(made(7)) == 7


def test_plans_of_the_old_leader_are_still_wanted() -> None:
    """F14: the new one found them and plans with them."""
    old, new = made(3, at=100.0), made(4, at=105.0)
    assert not is_stale(old, 4, first_made([old]))
    assert not is_stale(old, 4, first_made([old, new]))
    assert not is_stale(new, 4, first_made([old, new]))


def test_plans_of_a_leader_that_woke_up_too_late_are_not() -> None:
    """F14, I9: the new leader had begun to make machines for the same pods."""
    new, late = made(4, at=105.0), made(3, at=106.0)
    assert is_stale(late, 4, first_made([new, late]))
    assert not is_stale(made(3, at=105.0), 4, first_made([new])), "stamps are whole seconds"


def test_an_epoch_ahead_of_the_lease_is_not_old() -> None:
    """Somebody deleted the Lease: it counts from 0 again."""
    assert not is_stale(made(9, at=5.0), 0, first_made([made(1, at=1.0)]))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=12), st.integers(0, 5))
def test_the_newest_epoch_is_never_stale(rows: list[tuple[int, int]], current: int) -> None:
    """F14: the leader itself always gets on."""
    machines = [made(epoch, float(at)) for epoch, at in rows]
    for machine in machines:
        if epoch_of(machine) >= max(current, *(epoch for epoch, _ in rows)):
            assert not is_stale(machine, current, first_made(machines))


async def condition_of(kube: Kube, name: str) -> tuple[str, str]:
    found = parse_machine(await kube.get(MACHINES, name)).conditions[LAUNCHED]
    return found.reason, found.message


async def test_a_pool_that_is_full_holds_its_machines_back(
    start: Start, kube: Kube, control: Control
) -> None:
    """BAT-08: in words on the machine; more room, and it goes on."""
    await create_pool(kube, limits={"resources": {"cpu": "3"}})
    for name in ("a", "b"):
        await create_machine(kube, name)
    launcher = start()
    await launcher.launch.launch("a")
    with pytest.raises(RetryLater):
        await launcher.launch.launch("b")
    reason, message = await condition_of(kube, "b")
    assert reason == "LimitsExceeded"
    assert "Provisioner/default" in message
    assert "cpu 2 of 3" in message
    assert len(control.alive()) == 1
    await kube.patch(PROVISIONERS, "default", {"spec": {"limits": {"resources": {"cpu": "4"}}}})
    await launcher.launch.launch("b")
    assert len(control.alive()) == 2


async def test_machines_of_one_round_share_a_pools_room(
    start: Start, kube: Kube, control: Control
) -> None:
    """I4: both are looked at before either has its instance; v1's number of nodes."""
    await create_node_class(kube)
    await create_node_pool(kube)
    limits = {"spec": {"limits": {"nodes": "1"}}}
    await kube.patch(NODE_POOLS, "default", limits)
    launch = start().launch
    for name in ("a", "b"):
        await create_node_claim(kube, name)
    begun = [launch.begin(f"NodeClaim/{name}") for name in ("a", "b")]
    await begun[0]
    with pytest.raises(RetryLater):
        await begun[1]
    assert len(control.alive()) == 1
    told = (await kube.get(NODE_CLAIMS, "b"))["status"]["conditions"]
    assert any("nodes 1 of 1" in one["message"] for one in told)


async def test_a_machine_of_a_leader_without_its_lease_goes(
    start: Start, kube: Kube, control: Control, clock: FakeClock
) -> None:
    """F14: decided by the API server's stamps."""
    await create_pool(kube)
    first = await create_machine(kube, "new")
    await kube.patch(MACHINES, "new", {"metadata": {"annotations": {keys.EPOCH_ANNOTATION: "2"}}})

    async def current() -> int:
        return 2

    launch = start(current_epoch=current).launch
    await launch.launch("new")
    assert len(control.alive()) == 1
    stamp = first["metadata"]["creationTimestamp"]
    while (late := await create_machine(kube, "late"))["metadata"]["creationTimestamp"] == stamp:
        await kube.patch(MACHINES, "late", {"metadata": {"finalizers": None}})
        await kube.delete(MACHINES, "late")
    await launch.launch("late")
    assert late["metadata"]["name"] == "late"
    assert (await kube.get(MACHINES, "late"))["metadata"]["deletionTimestamp"]
    assert len(control.alive()) == 1


async def test_the_record_names_the_epoch_and_a_change_before_the_call_stops_it(
    start: Start, kube: Kube, control: Control
) -> None:
    """F14: the Lease is read right before CreateFleet."""
    await create_pool(kube)
    await create_machine(kube, "a")
    epochs = iter([4, 5, 5, 5])

    async def current() -> int:
        return next(epochs)

    control.post("faults", action="CreateFleet", status=500)
    launch = start(current_epoch=current).launch
    with pytest.raises(RetryLater):
        await launch.launch("a")
    assert (await kube.list(LAUNCH_RECORDS)).items == []
    with pytest.raises(RetryLater):
        await launch.launch("a")
    (record,) = (await kube.list(LAUNCH_RECORDS)).items
    assert record["spec"]["epoch"] == 5


@pytest.mark.slow
async def test_a_pool_in_back_off_waits_in_words(
    start: Start, kube: Kube, bus: Bus, clock: FakeClock, control: Control
) -> None:
    """F25: three machines never registered; a minute later the next one is tried, and only one."""
    await create_pool(kube)
    for name in ("a", "b"):
        await create_machine(kube, name)
    backoff = LaunchBackoff(bus.redis, bus.prefix)
    for _ in range(3):
        await backoff.failed("Provisioner/default")
    launch = start().launch
    with pytest.raises(RetryLater):
        await launch.launch("a")
    reason, message = await condition_of(kube, "a")
    assert reason == "LaunchBackoff"
    assert "do not register" in message
    clock.advance(61)
    await elapse(bus.redis, bus.prefix, 61)
    await launch.launch("a")
    with pytest.raises(RetryLater):
        await launch.launch("b")
    assert len(control.alive()) == 1


@pytest.mark.parametrize("setting", ["max_nodes", "launches_per_minute"])
async def test_a_safety_limit_is_told_in_words(
    start: Start, kube: Kube, control: Control, clock: FakeClock, setting: str
) -> None:
    """I10: settings, off by default."""
    await create_pool(kube)
    for name in ("a", "b"):
        await create_machine(kube, name)
    launch = start(**{setting: 1}).launch
    await launch.launch("a")
    with pytest.raises(RetryLater):
        await launch.launch("b")
    reason, message = await condition_of(kube, "b")
    assert (reason, setting.upper() in message) == ("SafetyLimit", True)
    if setting == "launches_per_minute":
        clock.advance(61)
        await launch.launch("b")
    assert len(control.alive()) == (1 if setting == "max_nodes" else 2)
