"""The launch saga against an API server and EC2 (F1, LCH-50..LCH-65): one instance, whatever dies when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.launcher.launch.fleet import launch_token
from services.launcher.launch.record_store import LaunchRecords
from shared.api.v1alpha5.machines import parse_machine
from shared.cloud.ec2.ownership import TOKEN_TAG
from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.domain import labels as keys
from shared.domain.machines.machine import LAUNCHED
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.resources import AWS_NODE_TEMPLATES, LAUNCH_RECORDS, MACHINES
from shared.metrics import Metrics
from shared.redis import streams
from shared.redis.bus import Bus, RetryLater
from shared.redis.messages import LaunchFailed, TerminateMachine
from shared.redis.mirror.catalogue.offerings import UnavailableOfferings
from tests.services.conftest import CLUSTER, Control, create_machine, create_pool
from tests.services.launcher.conftest import Launcher
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import ZONES
from tests.support.redis.elapsing import elapse

Start = Callable[[], Launcher]
NAME = "default-a"


class Died(BaseException):
    """The process ends here: nobody handles this."""


@pytest.fixture
async def machine(kube: Kube) -> dict[str, Any]:
    """A Machine that waits for its instance, with its class."""
    await create_pool(kube)
    return await create_machine(kube, NAME)


async def records(kube: Kube) -> list[dict[str, Any]]:
    return (await kube.list(LAUNCH_RECORDS)).items


async def stored(kube: Kube) -> dict[str, Any]:
    return await kube.get(MACHINES, NAME)


def no_capacity(control: Control, name: str = "m5.large") -> None:
    for zone in ZONES:
        control.post(
            "capacity", instanceType=name, zone=zone, capacityType="on-demand", available=0
        )


async def test_a_machine_gets_its_instance(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control
) -> None:
    """LCH-50, LCH-56, LCH-58, LCH-59: instance, status, labels, price, tags; the record is gone."""
    await start().launch.launch(NAME)
    (instance,) = control.instances()
    found = parse_machine(await stored(kube))
    assert found.provider_id == f"aws:///{instance['zone']}/{instance['instanceId']}"
    assert found.has(LAUNCHED)
    assert (found.instance_type, found.zone) == ("m5.large", instance["zone"])
    assert found.capacity_type == "on-demand"
    assert found.capacity["cpu"] == 2000
    assert found.labels[keys.AWS_PREFIX + "instance-ami-id"].startswith("ami-")
    assert found.annotations[keys.PRICE_ANNOTATION] == "96000"
    assert await records(kube) == []
    token = launch_token([(machine["metadata"]["uid"], 0)])
    expected = {
        f"kubernetes.io/cluster/{CLUSTER}": "owned",
        keys.PROVISIONER_NAME: "default",
        keys.MANAGED_BY: CLUSTER,
        TOKEN_TAG: token,
        keys.MACHINE_TAG: NAME,
        "Name": "karpenter.sh/provisioner-name/default",
    }
    assert expected.items() <= instance["tags"].items()


async def test_falling_back_to_few_on_demand_types_is_logged(
    start: Start, kube: Kube, machine: dict[str, Any]
) -> None:
    """LCH-48: once for machines that are alike."""
    both = [{"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.SPOT, keys.ON_DEMAND]}]
    for name in ("a", "b"):
        await create_machine(kube, name, requirements=both)
    launch = start().launch
    with capture_logs() as logs:
        await asyncio.gather(launch.launch("a"), launch.launch("b"))
    (line,) = [one for one in logs if "few on-demand types" in one["event"]]
    assert (line["log_level"], line["instance_types"]) == ("warning", 2)


async def test_the_next_launch_counts_on_fewer_addresses_where_this_one_is(
    start: Start, machine: dict[str, Any], control: Control
) -> None:
    """LCH-11: the machine's pods are counted in its own subnet only, once EC2 answered."""
    launcher = start().launch
    await launcher.launch(NAME)
    (instance,) = control.instances()
    for subnet in await launcher.saga.ports.cloud.ec2.subnets([SelectorTerm(tags={"Name": "*"})]):
        there = subnet.zone == instance["zone"]
        assert launcher.saga.subnets.addresses.free(subnet) < subnet.available_ips or not there
        assert launcher.saga.subnets.addresses.free(subnet) == subnet.available_ips or there


async def test_launching_again_does_nothing(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control
) -> None:
    """SVC-04: messages come more than once, also to another incarnation."""
    launcher = start()
    await launcher.launch.launch(NAME)
    before = await stored(kube)
    await launcher.launch.launch(NAME)
    await start().launch.launch(NAME)
    assert len(control.instances()) == 1
    assert await stored(kube) == before


@pytest.mark.slow
async def test_two_launchers_at_once_make_one_instance(
    start: Start, machine: dict[str, Any], control: Control, kube: Kube
) -> None:
    """F1, F2: the record and the client token, not the number of replicas, make it one."""
    launchers = [start().launch for _ in range(3)]
    await asyncio.gather(*(one.launch(NAME) for one in launchers), return_exceptions=True)
    await start().launch.launch(NAME)
    assert len(control.alive()) == 1
    assert parse_machine(await stored(kube)).provider_id.endswith(control.alive()[0])


@pytest.mark.parametrize("moment", ["before CreateFleet", "after CreateFleet"])
async def test_a_crash_leaves_one_instance(
    start: Start,
    kube: Kube,
    machine: dict[str, Any],
    control: Control,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F1, ACC-65: the next incarnation sends the stored request again, with its token."""
    first = start().launch
    create_fleet = first.saga.ports.cloud.ec2.create_fleet

    async def die(request: dict[str, Any]) -> None:
        if moment == "after CreateFleet":
            await create_fleet(request)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(first.saga.ports.cloud.ec2, "create_fleet", die)
        with pytest.raises(Died):
            await first.launch(NAME)
    assert len(control.alive()) == (moment == "after CreateFleet")
    (record,) = await records(kube)
    assert record["metadata"]["name"] == record["spec"]["request"]["ClientToken"]
    assert not parse_machine(await stored(kube)).provider_id
    await start().launch.launch(NAME)
    (alive,) = control.alive()
    assert parse_machine(await stored(kube)).provider_id.endswith(alive)
    assert await records(kube) == []


async def test_a_crash_between_status_and_record_is_cleaned_up(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control, clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """F1: the Machine has its instance, the record is left; the sweep drops it and ends nothing."""
    first = start().launch

    async def die(_self: LaunchRecords, _token: str) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(LaunchRecords, "drop", die)
        with pytest.raises(Died):
            await first.launch(NAME)
    assert len(await records(kube)) == 1
    garbage = start().garbage
    await garbage.sweep()
    clock.advance(ALL_LISTED_SECONDS + 1)
    await garbage.sweep()
    assert await records(kube) == []
    assert len(control.alive()) == 1


@pytest.mark.slow
async def test_an_unknown_outcome_is_repeated_with_the_same_token(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control
) -> None:
    """F1, R6: EC2 did it, the answer got lost."""
    control.post("faults", action="CreateFleet", status=0, mode="after")
    launcher = start()
    with pytest.raises(RetryLater):
        await launcher.launch.launch(NAME)
    assert len(await records(kube)) == 1
    await launcher.launch.launch(NAME)
    assert len(control.alive()) == 1
    assert parse_machine(await stored(kube)).provider_id.endswith(control.alive()[0])


@pytest.mark.slow
@pytest.mark.parametrize("found_by", ["the same call", "its tag"])
async def test_a_machine_whose_instance_was_stopped_before_it_was_known_goes_with_it(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control, found_by: str
) -> None:
    """A stopped instance may be started again: with another one its machine would have two."""
    control.post("faults", action="CreateFleet", status=0, mode="after")
    launcher = start()
    with pytest.raises(RetryLater):
        await launcher.launch.launch(NAME)
    (id_,) = control.alive()
    control.post("interruptions", kind="state-change", state="stopped", instanceIds=[id_])
    if found_by == "its tag":
        code = "IdempotentParameterMismatch"
        control.post("faults", action="CreateFleet", code=code, status=400)
    await launcher.launch.launch(NAME)
    left = await stored(kube)
    assert parse_machine(left).provider_id.endswith(id_)
    assert left["metadata"]["deletionTimestamp"]
    assert list(control.states()) == [id_]
    assert await records(kube) == []


async def test_a_token_whose_instance_is_gone_starts_another_attempt(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control
) -> None:
    """F1: EC2 refuses a replay of a terminated instance; a new attempt has a new token."""
    control.post("faults", action="CreateFleet", code="IdempotentInstanceTerminated", status=400)
    launcher = start()
    with pytest.raises(RetryLater):
        await launcher.launch.launch(NAME)
    assert await records(kube) == []
    annotations = (await stored(kube))["metadata"]["annotations"]
    assert annotations[keys.ATTEMPT_ANNOTATION] == "1"
    await launcher.launch.launch(NAME)
    (instance,) = control.instances()
    assert instance["tags"][TOKEN_TAG] == launch_token([(machine["metadata"]["uid"], 1)])


async def test_a_missing_launch_template_is_made_again(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control
) -> None:
    """LCH-25: a template that is gone."""
    code = "InvalidLaunchTemplateId.NotFound"
    control.post("faults", action="CreateFleet", code=code, status=400)
    launcher = start()
    with pytest.raises(RetryLater):
        await launcher.launch.launch(NAME)
    await launcher.launch.launch(NAME)
    assert len(control.alive()) == 1


async def test_a_machine_s_kubelet_decides_over_its_pods(
    start: Start, kube: Kube, control: Control
) -> None:
    """P-20, IT-13: in the boot data and in status."""
    await create_pool(kube, kubeletConfiguration={"maxPods": 12})
    await create_machine(kube, NAME, kubelet={"maxPods": 12})
    await start().launch.launch(NAME)
    found = parse_machine(await stored(kube))
    assert (found.capacity["pods"], found.allocatable["pods"]) == (12, 12)
    assert found.labels[keys.AWS_PREFIX + "instance-pods"] == "12"


@pytest.mark.slow
async def test_an_instance_is_written_down_though_its_class_is_gone(
    start: Start, kube: Kube, machine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: the stored request does not need the class, and nobody but us knows of the instance."""
    first = start().launch

    async def die(_: dict[str, Any]) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(first.saga.ports.cloud.ec2, "create_fleet", die)
        with pytest.raises(Died):
            await first.launch(NAME)
    await kube.delete(AWS_NODE_TEMPLATES, "default")
    await start().launch.launch(NAME)
    found = parse_machine(await stored(kube))
    assert found.has(LAUNCHED)
    assert found.capacity["pods"] == 110


async def test_no_capacity_ends_the_machine_and_marks_the_offerings(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control, bus: Bus,
    clock: FakeClock, published: Any, events: Any, metrics: Metrics,
) -> None:  # fmt: skip
    """LCH-61, LCH-64, ACC-62: deleted, reported, not asked for again for three minutes."""
    no_capacity(control)
    await start().launch.launch(NAME)
    meta = (await stored(kube))["metadata"]
    assert meta["deletionTimestamp"]
    assert await records(kube) == []
    unavailable = UnavailableOfferings(bus.redis, bus.prefix)
    assert await unavailable.current() == {("on-demand", "m5.large", zone) for zone in ZONES}
    await elapse(bus.redis, bus.prefix, 181)
    assert await unavailable.current() == frozenset()
    failed = [m for m in await published(streams.MACHINES) if isinstance(m, LaunchFailed)]
    assert failed[0].machine == f"Machine/{NAME}"
    assert "InsufficientInstanceCapacity" in failed[0].reason
    assert any(isinstance(m, TerminateMachine) for m in await published(streams.TERMINATIONS))
    assert await events() == [("InsufficientCapacityError", NAME)]
    failures = "karpenter_cloudprovider_instance_launch_failures_total"
    labels = {"zone": ZONES[0], "zone_id": "usw2-az2", "capacity_type": "on-demand"}
    reason = {"reason": "InsufficientInstanceCapacity"}
    assert metrics.registry.get_sample_value(failures, {**labels, **reason})


async def test_another_type_is_used_when_one_has_no_capacity(
    start: Start, kube: Kube, control: Control, bus: Bus, clock: FakeClock
) -> None:
    """LCH-61, ACC-63: instance and errors come together, both count."""
    await create_pool(kube)
    await create_machine(kube, NAME, ("m5.large", "m5.xlarge"))
    no_capacity(control)
    await start().launch.launch(NAME)
    assert parse_machine(await stored(kube)).instance_type == "m5.xlarge"
    unavailable = await UnavailableOfferings(bus.redis, bus.prefix).current()
    assert {key[1] for key in unavailable} == {"m5.large"}


async def test_marked_offerings_are_not_asked_for(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control, bus: Bus, clock: FakeClock
) -> None:
    """LCH-53, LCH-61: EC2 is not even called."""
    unavailable = UnavailableOfferings(bus.redis, bus.prefix)
    await unavailable.add([("on-demand", "m5.large", zone) for zone in ZONES], seconds=180)
    await start().launch.launch(NAME)
    assert (await stored(kube))["metadata"]["deletionTimestamp"]
    assert control.get("calls?action=CreateFleet")["calls"] == []


async def test_a_class_that_is_not_ready_ends_the_machine(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control, metrics: Metrics,
    events: Any,
) -> None:  # fmt: skip
    """LCH-65: its pods are planned anew, perhaps for another pool; the event says which field."""
    wrong = {"spec": {"subnetSelector": {"karpenter.sh/discovery": "nowhere"}}}
    await kube.patch(AWS_NODE_TEMPLATES, "default", wrong)
    await start().launch.launch(NAME)
    assert (await stored(kube))["metadata"]["deletionTimestamp"]
    assert control.instances() == []
    assert ("NodeClassNotReady", NAME) in await events()
    gone = "karpenter_nodeclaims_disrupted_total"
    labels = {"reason": "nodeclass_not_ready", "nodepool": "default", "capacity_type": ""}
    labels |= {"consolidation_policy": "", "termination_mode": "forceful"}
    assert metrics.registry.get_sample_value(gone, labels) == 1


async def test_another_error_is_told_on_the_machine_and_tried_again(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control
) -> None:
    """LCH-65: the reason is EC2's code; the next attempt has another token."""
    control.post("faults", action="CreateFleet", code="InvalidParameterValue", status=400)
    launcher = start()
    with pytest.raises(RetryLater):
        await launcher.launch.launch(NAME)
    condition = parse_machine(await stored(kube)).conditions[LAUNCHED]
    assert (condition.status, condition.reason) == ("Unknown", "InvalidParameterValue")
    await launcher.launch.launch(NAME)
    (instance,) = control.instances()
    assert instance["tags"][TOKEN_TAG] == launch_token([(machine["metadata"]["uid"], 1)])


async def test_machines_that_are_gone_or_going_are_not_launched(
    start: Start, kube: Kube, machine: dict[str, Any], control: Control
) -> None:
    """R1: the object decides, not the message."""
    launcher = start()
    await launcher.launch.launch("unheard-of")
    await kube.delete(MACHINES, NAME)
    await launcher.launch.launch(NAME)
    assert control.instances() == []
    with pytest.raises(NotFound):
        await kube.get(LAUNCH_RECORDS, launch_token([(machine["metadata"]["uid"], 0)]))
