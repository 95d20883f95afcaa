"""What crashed launches and deletions by hand left behind (LCH-67, LCH-80, LCH-81, LCH-83, R7, F23, F24)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from services.watcher.conversion import KINDS
from services.watcher.mirror.journal import Journal
from services.watcher.status.machine_notes import JoinedNodes
from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, TOKEN_TAG, cluster_tag
from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.domain import labels as keys
from shared.domain.machines.machine import INSTANCE_TERMINATING, REGISTERED
from shared.domain.nodes import provider_instance_id
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.client import Kube
from shared.kube.listing import KubeList
from shared.kube.resources import LAUNCH_RECORDS, MACHINES, NODE_CLAIMS, NODES
from shared.redis.mirror import MirrorWriter
from tests.services.conftest import CLUSTER, Control, create_machine, create_pool
from tests.services.launcher.lifecycle_world import World
from tests.support.planning.builders import make_node

POOLED = {CLUSTER_NAME_TAG: CLUSTER, keys.NODE_POOL: "default", keys.NODE_CLASS: "default"}
BOTH = pytest.mark.parametrize("generation_api", [V1ALPHA5, V1])
Events = Any


@pytest.mark.slow
@BOTH
async def test_an_orphan_ends_after_two_looks_and_not_before(
    world: World, control: Control, generation_api: str
) -> None:
    """LCH-81, LCH-83, R7; ACC-65: what a crash leaked; its leftover node goes too."""
    lost = await world.registered("default-a", generation_api)
    owned = await world.launched("default-b", generation_api)
    await world.forget(lost)
    await world.sweep()
    world.clock.advance(59)
    await world.sweep()
    assert len(control.alive()) == 2
    world.clock.advance(2)
    await world.sweep()
    assert control.alive() == [provider_instance_id(owned.provider_id)]
    node = await world.kube.get(NODES, lost.node_name)
    assert node["metadata"]["deletionTimestamp"], "the terminator takes it from here"


@pytest.mark.slow
async def test_too_many_orphans_at_once_are_a_wrong_list(
    world: World, control: Control, events: Events
) -> None:
    """F23: six of six look lost: none is ended, and log, gauge and event say so until it is settled by hand."""
    await create_pool(world.kube)
    lost = [await world.launched(f"default-{number}") for number in range(6)]
    for machine in lost:
        await world.forget(machine)
    await world.launched("default-good")
    await world.sweep_twice()
    assert len(control.alive()) == 7
    held = ("instances without a machine", "Provisioner/default")
    assert held in world.garbage.deletions.held
    assert world.metrics.deletions_held.labels(*held)._value.get() == 6
    assert ("DeletionsHeld", "default") in await events()
    await world.terminate(*lost[:1])
    await world.sweep_twice()
    assert world.garbage.deletions.held == {}
    assert len(control.alive()) == 1


async def test_instances_of_others_are_never_touched(world: World, control: Control) -> None:
    """LCH-83: another cluster's, a former v1alpha5 Karpenter's, and one that only looks like ours."""
    others = [
        {cluster_tag("other"): "owned", TOKEN_TAG: "x", keys.PROVISIONER_NAME: "default"},
        {cluster_tag(CLUSTER): "owned", keys.PROVISIONER_NAME: "default"},
        {CLUSTER_NAME_TAG: CLUSTER, keys.NODE_POOL: "default"},
        {CLUSTER_NAME_TAG: "other", keys.NODE_POOL: "a", keys.NODE_CLASS: "a"},
    ]
    for tags in others:
        await world.instances(tags)
    await world.launched("default-a")
    await world.sweep_twice()
    assert len(control.alive()) == len(others) + 1


async def test_what_a_v1_karpenter_of_this_cluster_leaked_is_ended(
    world: World, control: Control
) -> None:
    """LCH-81, LCH-83: pool, class and cluster are in its tags, our launch token is not."""
    await world.instances({**POOLED, cluster_tag(CLUSTER): "owned"})
    owned = await world.launched("default-a")
    await world.sweep_twice()
    assert control.alive() == [provider_instance_id(owned.provider_id)]


@BOTH
async def test_a_machine_without_instance_goes_after_two_looks(
    world: World, generation_api: str
) -> None:
    """LCH-80, ACC-39: ended by hand; a node that is still Ready speaks against it."""
    lost = await world.registered("default-a", generation_api)
    other = await world.registered("default-b", generation_api)
    await world.terminate(lost)
    await world.sweep_twice()
    assert not await world.is_leaving(lost)
    await world.report(lost.node_name, ready="Unknown")
    await world.sweep()
    assert not await world.is_leaving(lost)
    world.clock.advance(61)
    await world.sweep()
    assert await world.is_leaving(lost)
    assert not await world.is_leaving(other)


@pytest.mark.slow
async def test_a_lost_machine_says_when_its_instance_was_ended(world: World) -> None:
    """LCH-80: EC2 knows the second, so no ledger counts the time until the loss was confirmed."""
    lost = await world.launched("default-a", V1)
    await world.terminate(lost)
    (instance,) = await world.cloud.ec2.instances(ids=[provider_instance_id(lost.provider_id)])
    await world.sweep_twice()
    conditions = (await world.now(lost)).conditions
    assert conditions[INSTANCE_TERMINATING].since == instance.stopped_at


async def test_an_instance_that_may_not_use_its_key_is_explained_and_counted(
    world: World, control: Control, events: Events
) -> None:
    """LCH-67, ACC-39, F25: it ends at once and would do so again, for ever."""
    await create_pool(world.kube)
    await world.launched("default-good")
    control.post("faults", action="KMSDecrypt", count=1)
    lost = await world.launched("default-a")
    await world.sweep_twice()
    assert await world.is_leaving(lost)
    assert ("InstanceTerminated", "default-a") in await events()
    assert await world.outcomes.recent(["Provisioner/default"]) == {"Provisioner/default": (False,)}


async def test_an_instance_ended_by_hand_says_nothing_of_the_pool(
    world: World, events: Events
) -> None:
    """F25: only what would end the next one as well makes a pool wait. The terminator counts by the same rule."""
    await create_pool(world.kube)
    await world.launched("default-good")
    lost = await world.launched("default-a")
    await world.terminate(lost)
    await world.sweep_twice()
    assert await world.is_leaving(lost)
    assert ("InstanceTerminated", "default-a") in await events()
    assert await world.outcomes.recent(["Provisioner/default"]) == {}


async def test_an_instance_that_ec2_does_not_know_is_missed_until_all_lists_have_it(
    world: World,
) -> None:
    """F20, LCH-80: EC2 lists a new instance late. A wall clock that jumped makes no machine older."""
    await world.launched("default-good")
    lost = await world.launched("default-a", V1ALPHA5, "aws:///us-west-2a/i-0123456789abcdef0")
    world.clock.wall += 3600
    await world.sweep()
    for seconds in (ALL_LISTED_SECONDS - 60, 59):
        world.clock.advance(seconds)
        await world.sweep()
        assert not await world.is_leaving(lost)
    world.clock.advance(2)
    await world.sweep()
    assert await world.is_leaving(lost)


@pytest.mark.slow
async def test_many_machines_whose_instances_ec2_calls_terminated_all_go(world: World) -> None:
    """Proof is no guess: the breaker is for absence."""
    lost = [await world.launched(f"default-{number}") for number in range(7)]
    await world.terminate(*lost)
    await world.sweep_twice()
    assert all([await world.is_leaving(machine) for machine in lost])


async def test_a_registered_machine_whose_node_was_taken_away_goes(
    world: World, events: Events
) -> None:
    """F24: its instance runs, but for nobody. Found by provider id: the node's name may be another's by now."""
    lost = await world.registered("default-a")
    await world.registered("default-b")
    await world.remove_node(lost)
    other = await world.launched("default-c")
    await world.join(other, lost.node_name)
    await world.sweep_twice()
    assert await world.is_leaving(lost)
    assert ("NodeRemoved", "default-a") in await events()
    assert not await world.is_leaving(other)


@BOTH
async def test_a_machine_whose_node_was_deleted_before_it_was_registered_goes(
    world: World, events: Events, generation_api: str
) -> None:
    """F24: its node was seen, so it is no machine that still boots. Two sweeps, and nobody remembers anything between
    them but the API server and the clock of the second launcher."""
    machine = await world.launched("default-a", generation_api)
    booting = await world.launched("default-b", generation_api)
    await world.join(booting)
    joined = JoinedNodes(world.clock)
    journal = Journal(
        MirrorWriter(world.bus.redis, world.bus.prefix, epoch="a"), world.bus, world.clock
    )
    kind = next(one for one in KINDS if one.resource.kind == machine.kind)
    raw = await world.kube.get(kind.resource, machine.name)
    journal.note(kind, raw, kind.convert(raw).record)
    joined.note("node-default-a", make_node("node-default-a", provider_id=machine.provider_id))
    joined.note("node-default-a", None)
    await joined.write(journal, world.machines)
    await world.garbage.sweep()
    assert not await world.is_leaving(machine)
    world.restart()
    await world.sweep_twice()
    assert await world.is_leaving(machine)
    assert ("NodeRemoved", "default-a") in await events()
    assert not await world.is_leaving(booting)


async def test_a_machine_whose_node_comes_back_stays(world: World) -> None:
    """A kubelet that starts anew registers anew."""
    machine = await world.launched("default-a")
    other = await world.launched("default-b")
    await world.join(other)
    note = {"annotations": {keys.JOINED_ANNOTATION: "node-default-a"}}
    await world.machines.patch(machine, note)
    await world.garbage.sweep()
    world.clock.advance(61)
    await world.join(machine)
    await world.garbage.sweep()
    assert not await world.is_leaving(machine)
    await world.lifecycle.node_changed("node-default-a")
    assert (await world.now(machine)).has(REGISTERED)


async def test_a_launch_in_progress_is_nobodys_garbage(world: World, control: Control) -> None:
    """F1, ACC-65: its record says that somebody will adopt the instance."""
    await create_machine(world.kube, "default-a")
    machine = await world.machines.get("default-a")
    await world.record("lr-default-a", machine)
    await world.instances(world.tags("default-a"))
    for _ in range(3):
        await world.sweep()
        world.clock.advance(100)
    assert len(control.alive()) == 1
    assert len((await world.kube.list(LAUNCH_RECORDS)).items) == 1


@pytest.mark.slow
async def test_what_a_launch_nobody_wants_any_more_started_is_ended(
    world: World, control: Control
) -> None:
    """F20, F24: the Machine was deleted mid-launch. First the instances, then the record; no grace is needed."""
    await create_machine(world.kube, "default-a")
    machine = await world.machines.get("default-a")
    await world.record("lr-default-a", machine)
    await world.instances(world.tags("default-a"), number=7)
    await world.kube.delete(MACHINES, "default-a")
    await world.sweep()
    assert control.alive() == []
    for waited in (0, ALL_LISTED_SECONDS - 29):
        world.clock.advance(waited)
        await world.sweep()
        assert len((await world.kube.list(LAUNCH_RECORDS)).items) == 1, "EC2 may list one late"
    world.clock.wall += 3600
    await world.sweep()
    assert len((await world.kube.list(LAUNCH_RECORDS)).items) == 1, "a clock that jumped"
    world.clock.advance(30)
    await world.sweep()
    assert (await world.kube.list(LAUNCH_RECORDS)).items == []


@pytest.mark.slow
async def test_a_batch_that_got_more_than_it_asked_for_keeps_what_is_owned(
    world: World, control: Control
) -> None:
    """F19: the surplus of a finished launch is ended by its record, before that goes."""
    tags = {cluster_tag(CLUSTER): "owned", TOKEN_TAG: "lr-batch", keys.PROVISIONER_NAME: "default"}
    mine, _surplus = await world.instances(tags, number=2)
    machine = await world.launched("default-a", provider_id=f"aws:///us-west-2a/{mine}")
    await world.record("lr-batch", machine)
    await world.sweep()
    assert control.alive() == [mine]


async def test_a_machine_that_cannot_be_read_owns_what_it_names(
    world: World, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F27: it does not stop the sweep, and costs nobody an instance."""
    odd = await world.launched("default-odd")
    lost = await world.launched("default-lost")
    await world.launched("default-good")
    await world.forget(lost)
    list_all = world.machines.list_all

    async def with_an_odd_one() -> Any:
        found, _ = await list_all()
        raw = await world.kube.get(MACHINES, "default-odd")
        return [m for m in found if m.uid != odd.uid], [raw]

    monkeypatch.setattr(world.machines, "list_all", with_an_odd_one)
    await world.sweep_twice()
    assert provider_instance_id(odd.provider_id) in control.alive()
    assert provider_instance_id(lost.provider_id) not in control.alive()


def lying(world: World, monkeypatch: pytest.MonkeyPatch, resource: Any, keep: Any) -> None:
    """From now on the API server's lists of this kind show only what ``keep`` accepts."""
    real = Kube.pages

    async def shortened(
        self: Kube, kind: Any, *rest: Any, **options: Any
    ) -> AsyncGenerator[KubeList, None]:
        async for page in real(self, kind, *rest, **options):
            kept = [raw for raw in page.items if kind.plural != resource.plural or keep(raw)]
            yield KubeList(kept, page.resource_version)

    monkeypatch.setattr(Kube, "pages", shortened)


async def _wrong_region(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(**_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(world.cloud.ec2, "instances", nothing)


async def _tag_filter_finds_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real = world.cloud.ec2.instances

    async def by_id_only(**asked: Any) -> list[Any]:
        return await real(**asked) if asked.get("ids") else []

    monkeypatch.setattr(world.cloud.ec2, "instances", by_id_only)


async def _tag_filter_finds_everything(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.instances({"owner": "somebody else"})
    real = world.cloud.ec2.instances
    everything: dict[str, Any] = {"tags": {}, "tag_keys": (), "ids": None}

    async def all_there_are(**asked: Any) -> list[Any]:
        found = {one.id for one in await real(tag_keys=("owner",))}
        theirs = await real(ids=found)
        return [*theirs, *await real(**{**everything, **asked})]

    monkeypatch.setattr(world.cloud.ec2, "instances", all_there_are)


async def _no_machines(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lying(world, monkeypatch, MACHINES, lambda _: False)
    lying(world, monkeypatch, NODE_CLAIMS, lambda _: False)


async def _half_of_the_machines(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lying(world, monkeypatch, MACHINES, lambda raw: raw["metadata"]["name"] != "default-a")


async def _no_nodes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lying(world, monkeypatch, NODES, lambda _: False)


async def _half_of_the_nodes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lying(world, monkeypatch, NODES, lambda raw: raw["metadata"]["name"] != "node-default-a")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "alarm"),
    [
        (_wrong_region, True), (_tag_filter_finds_nothing, True), (_tag_filter_finds_everything, False),
        (_no_machines, True), (_half_of_the_machines, True), (_no_nodes, True), (_half_of_the_nodes, True),
    ],
)  # fmt: skip
async def test_a_wrong_list_ends_nothing_and_is_told(
    world: World, control: Control, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    fault: Any, alarm: bool,
) -> None:  # fmt: skip
    """F23: a few machines, so that no share of them would trip the breaker; every fault lasts five sweeps."""
    machines = [await world.registered(f"default-{letter}") for letter in "ab"]
    for machine in machines:
        await world.report(machine.node_name, ready="False")
    world.clock.advance(3600)
    with monkeypatch.context() as patch:
        await fault(world, patch)
        for _ in range(5):
            await world.sweep()
            world.clock.advance(61)
    assert not any([await world.is_leaving(machine) for machine in machines])
    assert set(control.alive()) >= {provider_instance_id(m.provider_id) for m in machines}
    assert bool(world.garbage.deletions.held) is alarm
    assert alarm or "EC2 lists instances without our tags" in capsys.readouterr().out
