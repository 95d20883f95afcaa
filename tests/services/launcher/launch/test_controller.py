"""Machines that are launched together (F1, F17..F19, LCH-54, ACC-63..ACC-65)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from services.launcher.launch.assignment import LaunchedInstance
from services.launcher.launch.controller import BATCH_IDLE_SECONDS
from services.launcher.launch.fleet import launch_token
from services.launcher.launch.saga import (
    REPEATABLE_SECONDS,
)
from shared.api.v1alpha5.machines import parse_machine
from shared.cloud.ec2.ownership import TOKEN_TAG
from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.domain import labels as keys
from shared.domain.instance_types.types import encode_catalogue
from shared.kube.client import Kube
from shared.kube.resources import MACHINES
from shared.metrics import Metrics
from shared.redis.bus import Bus, RetryLater
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from tests.services.conftest import Control, create_machine, create_pool
from tests.services.launcher.conftest import Launcher
from tests.services.launcher.stories.batches import (
    NAMES,
    calls,
    launch_all,
    let_records_age,
    lose_the_answer,
    owners,
    records,
    waiting_machines,
)
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_catalogue, make_type

Start = Callable[..., Launcher]


@pytest.fixture
async def uids(kube: Kube) -> dict[str, str]:
    """Three machines that wait; uid by name."""
    return await waiting_machines(kube)


async def test_equal_machines_are_one_call(
    start: Start, kube: Kube, control: Control, uids: dict[str, str]
) -> None:
    """LCH-54, ACC-64: N instances are assigned to N machines; one token, one record."""
    assert await launch_all(start()) == [None] * 3
    (call,) = calls(control)
    assert call["parameters"]["TargetCapacitySpecification"]["TotalTargetCapacity"] == 3
    token = launch_token((uid, 0) for uid in uids.values())
    assert call["parameters"]["ClientToken"] == token
    assert {one["tags"][TOKEN_TAG] for one in control.instances()} == {token}
    found = await owners(kube)
    assert sorted(found) == list(NAMES)
    assert sorted(found.values()) == sorted(control.alive())
    assert [found[name] for name in NAMES] == sorted(found.values())
    assert await records(kube) == []


async def test_different_machines_are_different_calls(
    start: Start, kube: Kube, control: Control
) -> None:
    """LCH-54: only equal requests are merged."""
    await create_pool(kube)
    await create_machine(kube, "a")
    await create_machine(kube, "b", ("m5.xlarge",))
    assert await launch_all(start(), ("a", "b")) == [None] * 2
    assert len(calls(control)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("where", ["create_fleet", "ensure"])
async def test_a_fault_of_our_own_about_one_machine_stops_no_other(
    start: Start, kube: Kube, control: Control, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """An answer or a class that we cannot work out: its machine is tried again, the others launch now."""
    await create_pool(kube)
    await create_machine(kube, "a")
    await create_machine(kube, "b", ("m5.xlarge",))
    launcher = start()
    cloud = launcher.launch.saga.ports.cloud
    owner: Any = cloud.ec2 if where == "create_fleet" else launcher.launch.requests.templates
    works = getattr(owner, where)

    async def fails_for_a(*asked: Any) -> Any:
        if "m5.large" in repr(asked):
            raise KeyError("a field that EC2 never leaves out")
        return await works(*asked)

    with monkeypatch.context() as patch:
        patch.setattr(owner, where, fails_for_a)
        ends = await launch_all(launcher, ("a", "b"))
    assert [type(end) for end in ends] == [RetryLater, type(None)]
    assert set(await owners(kube)) == {"b"}
    assert await launch_all(launcher, ("a",)) == [None]
    assert len(control.alive()) == 2


async def test_who_asks_meanwhile_waits_for_the_same_end(
    start: Start, control: Control, uids: dict[str, str]
) -> None:
    """SVC-04: a message and the timed listing at the same time."""
    launcher = start()
    await asyncio.gather(*(launcher.launch.launch("a") for _ in range(5)))
    assert len(calls(control)) == 1


@pytest.mark.slow
async def test_machines_that_come_while_a_round_is_decided_are_the_next_round(
    start: Start, control: Control, uids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LCH-54: each round reads all machines; what comes one by one meanwhile waits and is one call."""
    launch, free = start().launch, asyncio.Event()
    list_open = launch.records.list_open

    async def slowly() -> Any:
        await free.wait()
        return await list_open()

    monkeypatch.setattr(launch.records, "list_open", slowly)
    begun = []
    for name in NAMES:
        begun.append(launch.begin(name))
        await asyncio.sleep(2 * BATCH_IDLE_SECONDS)  # each would have been a batch of its own
    free.set()
    await asyncio.gather(*begun)
    wanted = [one["parameters"]["TargetCapacitySpecification"] for one in calls(control)]
    assert [one["TotalTargetCapacity"] for one in wanted] == [1, 2]


async def test_what_a_partial_fleet_leaves_short_goes(
    start: Start, kube: Kube, control: Control, uids: dict[str, str]
) -> None:
    """F19, LCH-54, LCH-64, ACC-63: the first in order get theirs, the others the fleet's errors."""
    control.post("fleets", give=2)
    assert await launch_all(start()) == [None] * 3
    assert sorted(await owners(kube)) == ["a", "b"]
    assert (await kube.get(MACHINES, "c"))["metadata"]["deletionTimestamp"]
    assert await records(kube) == []


async def test_of_a_gang_that_ec2_could_serve_in_part_nothing_starts(
    start: Start, kube: Kube, control: Control, uids: dict[str, str]
) -> None:
    """SCH-117: its machines are one call for all of them or none; those of others are a call of their own."""
    for name in ("a", "b"):
        body = {"metadata": {"annotations": {keys.GANG: "default/train"}}}
        await kube.patch(MACHINES, name, body)
    pool = {"instanceType": "m5.large", "capacityType": "on-demand"}
    control.post("capacity", **pool, zone="*", available=0)
    control.post("capacity", **pool, zone="us-west-2a", available=1)
    assert await launch_all(start()) == [None] * 3
    asked = [one["parameters"] for one in calls(control)]
    wanted = {one["TargetCapacitySpecification"]["TotalTargetCapacity"]: one for one in asked}
    assert wanted[2]["OnDemandOptions"]["MinTargetCapacity"] == 2
    assert "MinTargetCapacity" not in wanted[1]["OnDemandOptions"]
    assert set(await owners(kube)) <= {"c"}
    for name in ("a", "b"):
        assert (await kube.get(MACHINES, name))["metadata"]["deletionTimestamp"]
    assert await records(kube) == []


async def test_a_refused_call_is_another_attempt_for_all(
    start: Start, control: Control, uids: dict[str, str]
) -> None:
    """LCH-65: with a new token, for EC2 remembers the old one."""
    launcher = start()
    control.post("faults", action="CreateFleet", code="InvalidParameterValue", status=400)
    assert all(isinstance(one, RetryLater) for one in await launch_all(launcher))
    assert await launch_all(launcher) == [None] * 3
    token = launch_token((uid, 1) for uid in uids.values())
    assert {one["tags"][TOKEN_TAG] for one in control.instances()} == {token}


async def test_without_the_spot_role_on_demand_takes_over(
    start: Start, kube: Kube, bus: Bus, control: Control, events: Any
) -> None:
    """LCH-63: told on the machine; all of spot is left alone for three minutes."""
    both = (keys.SPOT, keys.ON_DEMAND)
    catalogue = make_catalogue((make_type(capacity_types=both),))
    await CatalogueStore(bus.redis, bus.prefix).put(encode_catalogue(catalogue), "both")
    await create_pool(kube)
    wanted = [{"key": keys.CAPACITY_TYPE, "operator": "In", "values": list(both)}]
    await create_machine(kube, "a", requirements=wanted)
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    control.post("faults", action="CreateFleet", code=code, status=403)
    launcher = start()
    assert [type(one) for one in await launch_all(launcher, ["a"])] == [RetryLater]
    assert await events() == [("LaunchFailed", "a")]
    assert await launch_all(launcher, ["a"]) == [None]
    assert parse_machine(await kube.get(MACHINES, "a")).capacity_type == keys.ON_DEMAND


async def test_one_throttled_call_counts_once(
    start: Start, kube: Kube, control: Control, uids: dict[str, str], metrics: Metrics, events: Any
) -> None:
    """F17: three machines, one metric, no events; the record and the token stay good."""
    code = "RequestLimitExceeded"
    control.post("faults", action="CreateFleet", code=code, status=503)
    launcher = start()
    assert all(isinstance(one, RetryLater) for one in await launch_all(launcher))
    failures = "karpenter_cloudprovider_instance_launch_failures_total"
    labels = {"zone": "", "zone_id": "", "capacity_type": "on-demand", "reason": code}
    assert metrics.registry.get_sample_value(failures, labels) == 1
    assert await events() == []
    assert len(calls(control)) == 1, "the client library sends nothing again by itself"
    (record,) = await records(kube)
    assert await launch_all(launcher) == [None] * 3
    assert {call["parameters"]["ClientToken"] for call in calls(control)} == {
        record["spec"]["clientToken"]
    }


@pytest.mark.slow
async def test_three_calls_a_minute_whatever_goes_wrong(
    start: Start, control: Control, clock: FakeClock, uids: dict[str, str]
) -> None:
    """F18: EC2 refuses everything, and everybody asks all the time."""
    control.post("faults", action="CreateFleet", code="InvalidParameterValue", status=400, count=99)
    launcher = start()
    for _ in range(10):
        await launch_all(launcher, ["a"])
        clock.advance(5)
    assert len(calls(control)) == 3
    clock.advance(20)
    await launch_all(launcher, ["a"])
    assert len(calls(control)) == 4


async def test_machines_whose_template_ec2_does_not_list_ask_less_and_less(
    start: Start, kube: Kube, control: Control, events: Any
) -> None:
    """EC2's lists may be minutes behind. Forty machines asked every other second, and each attempt was logged, and
    written to its machine; after four minutes their messages were dead letters."""
    await create_pool(kube)
    for name in ("a", "b"):
        await create_machine(kube, name)
    assert await launch_all(start(), ["a"]) == [None]
    control.post("settings", templateLagSeconds=600)
    launcher, versions = start(), set()
    for _ in range(3):
        (later,) = await launch_all(launcher, ["b"])
        assert isinstance(later, RetryLater)
        assert later.seconds is None, "the delay grows with the attempts"
        versions.add((await kube.get(MACHINES, "b"))["metadata"]["resourceVersion"])
    assert len(versions) == 1, "the second attempt has nothing new to say"
    assert [one for one in await events() if one[1] == "b"] == [("LaunchFailed", "b")]
    control.post("settings", templateLagSeconds=0)
    assert await launch_all(start(), ["b"]) == [None]


@pytest.mark.parametrize("reason", ["too old", "other parameters"])
async def test_a_record_that_may_not_be_sent_again_is_looked_up_by_its_tag(
    start: Start, kube: Kube, control: Control, uids: dict[str, str],
    monkeypatch: pytest.MonkeyPatch, reason: str,
) -> None:  # fmt: skip
    """F1: older than ten minutes, or IdempotentParameterMismatch: the same instances, no new call."""
    await lose_the_answer(start(), monkeypatch)
    if reason == "too old":
        await let_records_age(kube, REPEATABLE_SECONDS + 1)
    else:
        code = "IdempotentParameterMismatch"
        control.post("faults", action="CreateFleet", code=code, status=400)
    sent = len(calls(control))
    assert await launch_all(start(), ["b"]) == [None]
    found = await owners(kube)
    assert [found[name] for name in NAMES] == sorted(control.alive())
    assert len(calls(control)) == sent + (reason != "too old")
    assert await records(kube) == []


async def test_an_old_record_without_instances_is_believed_at_the_second_look(
    start: Start, kube: Kube, control: Control, clock: FakeClock, uids: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """F1, F20: EC2 shows new instances late; a minute later it is another attempt."""
    control.post("faults", action="CreateFleet", status=500)
    assert all(isinstance(one, RetryLater) for one in await launch_all(start()))
    await let_records_age(kube, REPEATABLE_SECONDS + 1)
    launcher = start()
    for wait in (ALL_LISTED_SECONDS - 1, 2):
        assert all(isinstance(one, RetryLater) for one in await launch_all(launcher))
        assert len(await records(kube)) == 1
        clock.advance(wait)
    assert all(isinstance(one, RetryLater) for one in await launch_all(launcher))
    assert await records(kube) == []
    assert await launch_all(launcher) == [None] * 3
    token = launch_token((uid, 1) for uid in uids.values())
    assert {one["tags"][TOKEN_TAG] for one in control.instances()} == {token}


async def test_a_refused_replay_does_not_start_a_second_instance(
    start: Start, kube: Kube, control: Control, clock: FakeClock, uids: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """F1: the template was deleted after the first call worked; EC2 looks at that before the token."""
    await lose_the_answer(start(), monkeypatch)
    code = "InvalidLaunchTemplateId.NotFound"
    control.post("faults", action="CreateFleet", code=code, status=400)
    assert await launch_all(start()) == [None] * 3
    assert len(control.alive()) == 3


async def test_a_machine_has_one_instance_whoever_writes_it(
    start: Start, kube: Kube, control: Control, uids: dict[str, str]
) -> None:
    """F1: compare-and-set on an empty providerID: two records for one machine leave an orphan, never two owners."""
    await start().launch.launch("a")
    before = (await kube.get(MACHINES, "a"))["status"]["providerID"]
    launcher = start()
    stale = parse_machine(await kube.get(MACHINES, "a"))
    results = launcher.launch.results
    other = LaunchedInstance("i-0123456789abcdef0", "m5.large", "us-west-2b", "on-demand")
    assert await results.launched(stale, other) is False
    after = await kube.get(MACHINES, "a")
    assert after["status"]["providerID"] == before
    assert after["metadata"]["labels"][keys.ZONE] in before


REAL_TYPES = tuple(
    f"{family}.{size}"
    for size in ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")
    for family in ("m5", "c5", "r5", "m5a", "c5a", "r5a", "m5d", "c5d", "r5d", "m5n", "c5n", "r5n")
    if not family.startswith("c5n") or size != "8xlarge"
)


@pytest.mark.parametrize("seed", range(3))
async def test_nineteen_of_twenty_pools_without_capacity(
    start: Start, kube: Kube, bus: Bus, control: Control, seed: int
) -> None:
    """F18: the pods land if any pool fits, with one call for each machine that is made for them."""
    types = tuple(make_type(name, price=1000 + n) for n, name in enumerate(REAL_TYPES))
    catalogue = make_catalogue(types)
    await CatalogueStore(bus.redis, bus.prefix).put(encode_catalogue(catalogue), f"seed-{seed}")
    await create_pool(kube)
    everything = {"instanceType": "*", "zone": "*", "capacityType": "*"}
    control.post("capacity", **everything, available=0, percent=95, seed=seed)
    names = [f"m-{n}" for n in range(4)]
    for name in names:
        await create_machine(kube, name, REAL_TYPES)
    assert await launch_all(start(), names) == [None] * 4
    assert sorted(await owners(kube)) == names
    assert len(calls(control)) == 1
