"""Instances that no machine owns end on the launcher's order, after the terminator's own two looks (LCH-81, R7)."""

from __future__ import annotations

from typing import Any

import pytest

from services.terminator.orphaned_instances import CONFIRM_AFTER_SECONDS
from services.terminator.waiting.step import DONE
from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, TOKEN_TAG, cluster_tag
from shared.domain import labels as keys
from shared.domain.nodes import provider_instance_id
from shared.kube.resources import LAUNCH_RECORDS, MACHINES, NODE_CLAIMS
from shared.redis.messages import EndInstance, encode
from tests.services.conftest import CLUSTER, Control, create_machine, create_node_claim
from tests.services.terminator.world import World

TOKEN = "lr-lost"
OURS = {
    cluster_tag(CLUSTER): "owned",
    TOKEN_TAG: TOKEN,
    keys.PROVISIONER_NAME: "default",
    keys.MACHINE_TAG: "default-lost",
}


async def stray(world: World, tags: dict[str, str] | None = None) -> str:
    """A running instance without a machine: its id."""
    (provider_id,) = await world.instances(1, OURS if tags is None else tags)
    return provider_instance_id(provider_id)


async def order(world: World, instance: str) -> None:
    """As it comes off the stream."""
    message = EndInstance(instance=instance, reason="no machine owns it")
    await world.queue.handle(encode(message, cause="test", clock=world.clock))


async def steps(world: World, number: int = 3) -> None:
    """Turns that are longer than the time between two looks."""
    for _ in range(number):
        await world.step()
        world.clock.advance(CONFIRM_AFTER_SECONDS + 1)


async def test_it_ends_at_the_second_look_and_not_before(world: World, control: Control) -> None:
    """R7: absence alone proves nothing."""
    lost, other = await stray(world), await stray(world)
    await order(world, lost)
    await world.step()
    world.clock.advance(CONFIRM_AFTER_SECONDS - 1)
    await world.step()
    assert sorted(control.alive()) == sorted([lost, other])
    world.clock.advance(2)
    await world.step()
    assert control.alive() == [other]


async def test_a_doubled_or_late_order_does_nothing_more(world: World, control: Control) -> None:
    lost = await stray(world)
    for _ in range(3):
        await order(world, lost)
        await steps(world)
        world.done.clear()
    assert len(control.get("calls?action=TerminateInstances")["calls"]) == 1
    assert control.alive() == []


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {cluster_tag("other"): "owned", TOKEN_TAG: TOKEN},
        {cluster_tag(CLUSTER): "owned", keys.PROVISIONER_NAME: "default"},
        {CLUSTER_NAME_TAG: "other", keys.NODE_POOL: "a", keys.NODE_CLASS: "a"},
    ],
)
async def test_a_forged_order_ends_nobody_elses_instance(
    world: World, control: Control, tags: dict[str, str]
) -> None:
    """LCH-83: its own tags say whose it is, not the order."""
    foreign = await stray(world, tags)
    await order(world, foreign)
    await steps(world)
    assert control.alive() == [foreign]


POOLED = {CLUSTER_NAME_TAG: CLUSTER, keys.NODE_POOL: "default", keys.NODE_CLASS: "default"}


async def test_an_instance_without_the_tag_of_the_cluster_is_left_without_a_call(
    world: World, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    """LCH-83: the policy allows the end of tagged instances only; an order that cannot be carried out is dropped."""
    copied = await stray(world, POOLED)
    await order(world, copied)
    await steps(world)
    assert control.alive() == [copied]
    assert control.get("calls?action=TerminateInstances")["calls"] == []
    assert f"it lacks the tag {cluster_tag(CLUSTER)}=owned" in capsys.readouterr().out
    assert f"Instance/{copied}" in world.done


async def test_an_end_that_ec2_refuses_is_told_once_for_each_order(
    world: World, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    """LCH-81: a policy of the user's own may allow less. The launcher's next order tries it again."""
    lost = await stray(world)
    control.post(
        "faults", action="TerminateInstances", status=403, code="UnauthorizedOperation", count=1
    )
    await order(world, lost)
    await steps(world)
    assert control.alive() == [lost]
    assert f"Instance/{lost}" in world.done
    assert capsys.readouterr().out.count("EC2 refuses the end of an instance") == 1
    world.done.clear()
    await order(world, lost)
    await steps(world)
    assert control.alive() == []


async def _machine(world: World, instance: str) -> None:
    await create_machine(world.kube, "default-owner")
    status = {"providerID": f"aws:///us-west-2a/{instance}"}
    await world.kube.patch(MACHINES, "default-owner", {"status": status}, subresource="status")


async def _claim(world: World, instance: str) -> None:
    await create_node_claim(world.kube, "default-owner")
    status = {"providerID": f"aws:///us-west-2a/{instance}"}
    await world.kube.patch(NODE_CLAIMS, "default-owner", {"status": status}, subresource="status")


async def _open_launch(world: World, instance: str) -> None:
    machine = await create_machine(world.kube, "default-lost")
    subject = {"kind": "Machine", "name": "default-lost", "uid": machine["metadata"]["uid"]}
    spec: dict[str, Any] = {
        "machines": [subject], "clientToken": TOKEN, "attempt": 0, "request": {}, "epoch": 0,
        "createdAt": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    await world.kube.create(LAUNCH_RECORDS, {"metadata": {"name": TOKEN}, "spec": spec})


async def _left_out_of_the_list(world: World, instance: str) -> None:
    """F23: a wrong list deletes nothing."""
    machine = await create_machine(world.kube, "default-lost")
    status = {"providerID": f"aws:///us-west-2a/{instance}"}
    name = machine["metadata"]["name"]
    await world.kube.patch(MACHINES, name, {"status": status}, subresource="status")

    async def nothing() -> Any:
        return [], []

    world.termination.lists.all_machines = nothing  # type: ignore[method-assign]


async def _unreadable(world: World, instance: str) -> None:
    """F27: it names no instance, so it may own any."""

    async def one_that_nobody_can_read() -> Any:
        return [], [{"metadata": {"name": "odd", "uid": "odd"}, "spec": {}}]

    world.termination.lists.all_machines = one_that_nobody_can_read  # type: ignore[method-assign]


async def _shifted_zone(world: World, instance: str) -> None:
    """GAT-03: zonal shift."""
    await world.termination.shifted.put(frozenset({world.subnet.zone}))


@pytest.mark.parametrize(
    "claim",
    [_machine, _claim, _open_launch, _left_out_of_the_list, _unreadable, _shifted_zone],
)
async def test_an_instance_that_something_speaks_for_stays(
    world: World, control: Control, claim: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forged order, or one that is late: the terminator reads whose it is."""
    owned = await stray(world)
    await claim(world, owned)
    await order(world, owned)
    await steps(world)
    assert control.alive() == [owned]
    assert "not ending the instance" in capsys.readouterr().out
    assert f"Instance/{owned}" in world.done, "the launcher orders again if it must"


async def test_what_is_claimed_between_the_two_looks_stays(world: World, control: Control) -> None:
    """R7: absence alone proves nothing."""
    lost = await stray(world)
    await order(world, lost)
    await world.step()
    await _machine(world, lost)
    world.clock.advance(CONFIRM_AFTER_SECONDS + 1)
    await steps(world)
    assert control.alive() == [lost]


async def test_a_record_that_nobody_waits_for_does_not_keep_it(
    world: World, control: Control
) -> None:
    """F24: the machine was deleted in the middle of its launch."""
    lost = await stray(world)
    await _open_launch(world, lost)
    await world.kube.delete(MACHINES, "default-lost")
    await order(world, lost)
    await steps(world)
    assert control.alive() == []


async def test_an_instance_that_ec2_does_not_know_is_nothing_to_do(world: World) -> None:
    await order(world, "i-0123456789abcdef0")
    assert await world.queue.step("Instance", "i-0123456789abcdef0") is DONE


@pytest.mark.slow
async def test_silence_of_ec2_ends_nothing_and_is_asked_again(
    world: World, control: Control
) -> None:
    lost = await stray(world)
    await order(world, lost)
    control.post("faults", action="DescribeInstances", status=503, code="Unavailable", count=50)
    await world.step()
    assert control.alive() == [lost]
    control.post("clear")
    await steps(world)
    assert control.alive() == []


async def test_a_restart_between_the_looks_costs_one_order(world: World, control: Control) -> None:
    """The launcher's next look repeats it."""
    lost = await stray(world)
    await order(world, lost)
    await world.step()
    world.restart()
    await steps(world)
    assert control.alive() == [lost]
    await order(world, lost)
    await steps(world)
    assert control.alive() == []


@pytest.mark.parametrize("text", ["", "i-", "x" * 40, "i-0123456789abcdef0 i-1", "I-0123456789"])
def test_an_order_names_an_instance_id(text: str) -> None:
    with pytest.raises(ValueError, match="instance"):
        EndInstance(instance=text)
