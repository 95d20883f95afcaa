"""Instance profiles that serve nobody go, and no others (EC-21, LCH-90)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.launcher.garbage_collection.instance_profiles import (
    PROTECTED_SECONDS,
    UnusedInstanceProfiles,
)
from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from shared.cloud.client.session import Cloud
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS
from tests.services.conftest import CLUSTER, Control, create_node_claim, create_node_class
from tests.services.launcher.conftest import Launcher, with_settings
from tests.support.clock.fake import FakeClock
from tests.support.waiting import wait_until

OTHER_ROLE = f"{CLUSTER}-cluster"


@pytest.fixture
def garbage(ports: Ports) -> UnusedInstanceProfiles:
    of = with_settings(ports, disable_dry_run=True)
    return UnusedInstanceProfiles(of, Machines(of.kube), NodeClasses(of).profiles)


async def names(garbage: UnusedInstanceProfiles) -> set[str]:
    return {one.name for one in await garbage.profiles.made()}


@pytest.mark.slow
async def test_a_profile_goes_an_hour_after_its_last_instance(
    garbage: UnusedInstanceProfiles,
    kube: Kube,
    cloud: Cloud,
    clock: FakeClock,
    control: Control,
    start: Callable[[], Launcher],
) -> None:
    """EC-07, EC-21: the class has another role by now; the new profile stays, used or not."""
    await create_node_class(kube)
    await create_node_claim(kube)
    await start().launch.launch("NodeClaim/default-c")
    (old,) = await names(garbage)
    (instance,) = await cloud.ec2.instances(tags={"eks:eks-cluster-name": CLUSTER})
    assert instance.profile == old

    await kube.patch(EC2_NODE_CLASSES, "default", {"spec": {"role": OTHER_ROLE}})
    await create_node_claim(kube, "second")
    await start().launch.launch("NodeClaim/second")
    new = (await names(garbage)) - {old}
    assert len(new) == 1
    for _ in range(3):
        await garbage.sweep()
        clock.advance(PROTECTED_SECONDS)
    assert await names(garbage) == {old, *new}

    control.post("settings", instanceShuttingDownSeconds=0)
    await cloud.ec2.terminate([instance.id])
    await kube.delete(NODE_CLAIMS, "default-c")
    await wait_until(lambda: control.states()[instance.id] == "terminated", "it ends")
    await garbage.sweep()
    clock.advance(PROTECTED_SECONDS - 1)
    await garbage.sweep()
    assert await names(garbage) == {old, *new}
    clock.advance(1)
    await garbage.sweep()
    assert await names(garbage) == new


async def test_a_list_that_lacks_an_instance_deletes_nothing(
    garbage: UnusedInstanceProfiles,
    kube: Kube,
    cloud: Cloud,
    clock: FakeClock,
    control: Control,
    start: Callable[[], Launcher],
) -> None:
    """F23: of an instance that EC2 does not list nobody knows the profile."""
    await create_node_class(kube)
    await create_node_claim(kube)
    await start().launch.launch("NodeClaim/default-c")
    before = await names(garbage)
    await kube.patch(EC2_NODE_CLASSES, "default", {"spec": {"role": OTHER_ROLE}})
    (instance,) = await cloud.ec2.instances(tags={"eks:eks-cluster-name": CLUSTER})
    control.post("settings", instanceShuttingDownSeconds=0)
    await cloud.ec2.terminate([instance.id])
    await wait_until(lambda: control.states()[instance.id] == "terminated", "it ends")
    for _ in range(3):
        await garbage.sweep()
        clock.advance(PROTECTED_SECONDS)
    assert await names(garbage) == before


async def test_without_permission_nothing_is_looked_for(
    garbage: UnusedInstanceProfiles, control: Control
) -> None:
    """Who makes profiles outside may keep IAM closed."""
    control.post("faults", action="ListInstanceProfiles", code="AccessDenied", status=403)
    await garbage.sweep()
