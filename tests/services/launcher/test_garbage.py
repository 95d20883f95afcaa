"""What crashed launches and outside hands left behind (LCH-80, LCH-81, R7, F23, F24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.api.machines import parse_machine
from shared.cloud.session import Cloud
from shared.domain.nodepools import SelectorTerm
from shared.domain.nodes import provider_instance_id
from shared.kube.client import Kube
from shared.kube.resources import LAUNCH_RECORDS, MACHINES
from tests.services.conftest import Control, create_machine, create_pool
from tests.services.launcher.conftest import Launcher
from tests.support.fake_clock import FakeClock

Start = Callable[[], Launcher]


@pytest.fixture
async def launcher(start: Start, kube: Kube) -> Launcher:
    await create_pool(kube)
    return start()


async def launched(launcher: Launcher, kube: Kube, name: str) -> str:
    """A Machine with its instance; the instance's id."""
    await create_machine(kube, name)
    await launcher.launch.launch(name)
    machine = parse_machine(await kube.get(MACHINES, name))
    return provider_instance_id(machine.provider_id)


async def forget(kube: Kube, name: str) -> None:
    """The Machine is gone without a termination: somebody took its finalizer off."""
    await kube.patch(MACHINES, name, {"metadata": {"finalizers": None}})
    await kube.delete(MACHINES, name)


async def test_an_orphan_ends_after_two_looks_and_not_before(
    launcher: Launcher, kube: Kube, control: Control, clock: FakeClock
) -> None:
    """LCH-81, R7."""
    orphan = await launched(launcher, kube, "default-a")
    owned = await launched(launcher, kube, "default-b")
    await forget(kube, "default-a")
    await launcher.garbage.sweep()
    clock.advance(59)
    await launcher.garbage.sweep()
    assert set(control.alive()) == {orphan, owned}
    clock.advance(2)
    await launcher.garbage.sweep()
    assert control.alive() == [owned]


async def test_too_many_orphans_at_once_are_a_wrong_list(
    launcher: Launcher, kube: Kube, control: Control, clock: FakeClock
) -> None:
    """F23: six of six look lost: none is ended."""
    for number in range(6):
        await launched(launcher, kube, f"default-{number}")
        await forget(kube, f"default-{number}")
    await launcher.garbage.sweep()
    clock.advance(61)
    await launcher.garbage.sweep()
    assert len(control.alive()) == 6


async def test_instances_of_others_are_never_touched(
    launcher: Launcher, kube: Kube, cloud: Cloud, control: Control, clock: FakeClock
) -> None:
    """LCH-83: only what carries the cluster's tag and a pool's."""
    await launched(launcher, kube, "default-a")

    foreign = await _foreign_instance(cloud)
    await launcher.garbage.sweep()
    clock.advance(61)
    await launcher.garbage.sweep()
    assert foreign in control.alive()


async def _foreign_instance(cloud: Cloud) -> str:
    """Another cluster's."""
    subnets = await cloud.ec2.subnets(
        [SelectorTerm(tags={"karpenter.sh/discovery": "dovetail-local"})]
    )
    image = await cloud.ssm.parameter(
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"
    )
    template = await cloud.ec2.ensure_launch_template("other", {"ImageId": image}, {"a": "b"})
    tags = [
        {"Key": "kubernetes.io/cluster/other", "Value": "owned"},
        {"Key": "karpenter.sh/provisioner-name", "Value": "default"},
    ]
    specification = {"LaunchTemplateId": template.id, "Version": str(template.version)}
    answer = await cloud.ec2.create_fleet(
        {
            "Type": "instant",
            "ClientToken": "other",
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": 1,
                "DefaultTargetCapacityType": "on-demand",
            },
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": specification,
                    "Overrides": [{"InstanceType": "m5.large", "SubnetId": subnets[0].id}],
                }
            ],
            "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
        }
    )
    return answer.instances[0].id


async def test_a_machine_without_instance_goes_after_two_looks(
    launcher: Launcher, kube: Kube, cloud: Cloud, clock: FakeClock
) -> None:
    """LCH-80, LCH-67, scenario 39: ended by hand, by EC2, or right after its start."""
    widow = await launched(launcher, kube, "default-a")
    await launched(launcher, kube, "default-b")
    await cloud.ec2.terminate([widow])
    await launcher.garbage.sweep()
    assert not (await kube.get(MACHINES, "default-a"))["metadata"].get("deletionTimestamp")
    clock.advance(61)
    await launcher.garbage.sweep()
    assert (await kube.get(MACHINES, "default-a"))["metadata"]["deletionTimestamp"]
    assert not (await kube.get(MACHINES, "default-b"))["metadata"].get("deletionTimestamp")


async def test_a_launch_in_progress_is_nobodys_garbage(
    launcher: Launcher,
    kube: Kube,
    control: Control,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F1: its record says that somebody will adopt the instance."""
    await create_machine(kube, "default-a")

    async def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(launcher.launch.writer, "launched", die)
        with pytest.raises(KeyboardInterrupt):
            await launcher.launch.launch("default-a")
    for _ in range(3):
        await launcher.garbage.sweep()
        clock.advance(100)
    assert len(control.alive()) == 1
    await launcher.launch.launch("default-a")
    assert len(control.alive()) == 1


async def test_what_a_launch_nobody_wants_any_more_started_is_ended(
    launcher: Launcher,
    kube: Kube,
    control: Control,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F24: the Machine was deleted mid-launch. First the instance, then the record."""
    await create_machine(kube, "default-a")

    async def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(launcher.launch.writer, "launched", die)
        with pytest.raises(KeyboardInterrupt):
            await launcher.launch.launch("default-a")
    await kube.delete(MACHINES, "default-a")
    clock.advance(61)
    await launcher.garbage.sweep()
    assert control.alive() == []
    await launcher.garbage.sweep()
    assert (await kube.list(LAUNCH_RECORDS)).items == []
