"""Machines that wait for their pool's limits go when nobody needs them (BAT-08)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.scheduler.provisioning.limit_waiters import LimitWaiters, unneeded, waits_for_limits
from shared.api.v1alpha5.machines import parse_machine
from shared.domain.machines.machine import LAUNCHED, Condition, Machine
from shared.domain.workloads.capacity_buffers import CapacityBuffer, PodTemplate
from shared.kube.client import Kube
from shared.kube.resources import LAUNCH_RECORDS, MACHINES
from shared.solver.reasons import OUT_OF_TIME
from tests.services.scheduler.conftest import Scheduler, machines, pool_of
from tests.support.planning.builders import make_bound_pod, make_machine, make_pod

NO_ROOM = Condition("Unknown", "LimitsExceeded", "cpu 8 of 8", 1.0)
WAITS = make_machine("m", conditions={LAUNCHED: NO_ROOM})


async def waiter(scheduler: Scheduler, kube: Kube, **pool: Any) -> Machine:
    """A pod waits, a machine was made for it, and the launcher said that there is no room."""
    await scheduler.show(nodepools=[await pool_of(kube, **pool)], pods=[make_pod("web")])
    await scheduler.plan("a")
    (raw,) = await machines(kube)
    await scheduler.parts.machines.write_condition(parse_machine(raw), LAUNCHED, NO_ROOM)
    (raw,) = await machines(kube)
    machine = parse_machine(raw)
    await scheduler.show(machines=[machine])
    return machine


@pytest.fixture(params=["on", "off"])
def more_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each of them with pods that count on what they are promised (KEP-5278) and without."""
    return {"nominate": request.param}


@pytest.fixture
def waiters(scheduler: Scheduler) -> LimitWaiters:
    return scheduler.parts.limit_waiters


async def is_withdrawn(kube: Kube, machine: Machine) -> bool:
    raw = await kube.get(MACHINES, machine.name)
    return "deletionTimestamp" in raw["metadata"]


async def test_a_machine_whose_pods_are_served_elsewhere_is_withdrawn(
    scheduler: Scheduler, kube: Kube, waiters: LimitWaiters
) -> None:
    """After the second check, not the first."""
    machine = await waiter(scheduler, kube)
    await scheduler.show(pods=[make_bound_pod("web", "elsewhere")])
    await waiters.step()
    assert not await is_withdrawn(kube, machine)
    await waiters.step()
    assert await is_withdrawn(kube, machine)


async def test_a_machine_whose_pods_wait_on_stays(
    scheduler: Scheduler, kube: Kube, waiters: LimitWaiters
) -> None:
    """Another pod counts on it as well as the one it was made for."""
    machine = await waiter(scheduler, kube)
    await scheduler.show(pods=[make_bound_pod("web", "elsewhere"), make_pod("next")])
    for _ in range(3):
        await waiters.step()
    assert not await is_withdrawn(kube, machine)


async def test_a_machine_stays_that_its_own_pods_wait_for(
    scheduler: Scheduler, kube: Kube, waiters: LimitWaiters
) -> None:
    """A pod that is promised to it counts as one of it already, so no plan puts it there again."""
    machine = await waiter(scheduler, kube)
    for _ in range(3):
        await waiters.step()
    assert not await is_withdrawn(kube, machine)


async def test_a_machine_for_room_that_is_kept_stays(
    scheduler: Scheduler, kube: Kube, waiters: LimitWaiters
) -> None:
    """GAT-02: no pod needs it, but a buffer does."""
    machine = await waiter(scheduler, kube)
    template = PodTemplate("PodTemplate", "default", "web", make_pod("web"))
    buffer = CapacityBuffer("b", "default", "spare", template="web", replicas=1)
    await scheduler.show(
        gone=[("pods", "default/web")], capacitybuffers=[buffer], podtemplates=[template]
    )
    for _ in range(3):
        await waiters.step()
    assert not await is_withdrawn(kube, machine)


async def test_a_need_between_two_checks_begins_the_count_anew(
    scheduler: Scheduler, kube: Kube, waiters: LimitWaiters
) -> None:
    machine = await waiter(scheduler, kube)
    gone = [("pods", "default/web")]
    await scheduler.show(gone=gone)
    await waiters.step()
    await scheduler.show(pods=[make_pod("next")])
    await waiters.step()
    await scheduler.show(gone=[("pods", "default/next")])
    await waiters.step()
    assert not await is_withdrawn(kube, machine)
    await waiters.step()
    assert await is_withdrawn(kube, machine)


@pytest.mark.parametrize("since", ["a launch was begun", "the launcher lets it go on"])
async def test_a_machine_that_may_have_an_instance_is_left_alone(
    scheduler: Scheduler, kube: Kube, waiters: LimitWaiters, since: str
) -> None:
    """The mirror still shows it waiting."""
    machine = await waiter(scheduler, kube)
    await scheduler.show(gone=[("pods", "default/web")])
    await waiters.step()
    if since == "a launch was begun":
        spec = {
            "machines": [{"kind": "Machine", "name": machine.name, "uid": machine.uid}],
            "clientToken": "t", "attempt": 0, "request": {}, "createdAt": "2024-01-01T00:00:00Z",
        }  # fmt: skip
        await kube.create(LAUNCH_RECORDS, {"metadata": {"name": "t"}, "spec": spec})
    else:
        going = Condition("Unknown", "Launching", "", 2.0)
        await scheduler.parts.machines.write_condition(machine, LAUNCHED, going)
    await waiters.step()
    assert not await is_withdrawn(kube, machine)


@pytest.mark.parametrize(
    "machine",
    [
        replace(WAITS, provider_id="aws:///us-west-2a/i-1"),
        replace(WAITS, terminating=True),
        replace(WAITS, pool=""),
        replace(WAITS, conditions={}),
        replace(WAITS, conditions={LAUNCHED: Condition("True", "Launched")}),
        replace(WAITS, conditions={LAUNCHED: Condition("Unknown", "NoCatalogue")}),
    ],
    ids=["launched", "leaving", "by hand", "new", "true", "another reason"],
)
def test_only_machines_that_wait_for_limits_are_looked_at(machine: Machine) -> None:
    assert waits_for_limits(WAITS)
    assert not waits_for_limits(machine)


async def test_a_plan_that_ran_out_of_time_withdraws_nothing(
    scheduler: Scheduler, kube: Kube, waiters: LimitWaiters
) -> None:
    machine = await waiter(scheduler, kube)
    await scheduler.show(pods=[make_bound_pod("web", "elsewhere")])
    snapshot = await waiters._snapshot()
    assert snapshot is not None
    plan = await waiters._plan(snapshot)
    assert unneeded([machine], plan, snapshot) == [machine]
    late = replace(plan, unschedulable={"uid-x": OUT_OF_TIME})
    assert unneeded([machine], late, snapshot) == []
