"""May machines of a class be launched? Dry runs before the first launch (EC-18)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.launcher.node_class.authorization import (
    AUTHORIZATION_FRESH_SECONDS,
    CREATE_FLEET,
    CREATE_LAUNCH_TEMPLATE,
    RUN_INSTANCES,
    Authorization,
    requests,
)
from services.launcher.node_class.images import boot_images
from services.launcher.ports import Ports
from services.launcher.resolved_class import BootImages, Resolved
from shared.cloud.ec2.records import Image, SecurityGroup, Subnet
from shared.domain import labels as keys
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.errors import Throttled
from tests.services.conftest import Control
from tests.services.launcher.conftest import with_settings
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_node_class

IMAGE = Image("ami-1", "one", "arm64", "", "self", False)
NODE_CLASS = make_node_class(generation_api=V1, generation=1, tags={"team": "blue"})
RESOLVED = Resolved(
    NODE_CLASS,
    (Subnet("subnet-1", "us-west-2a", "", 9), Subnet("subnet-2", "us-west-2b", "", 1)),
    (SecurityGroup("sg-2", ""), SecurityGroup("sg-1", "")),
    BootImages(boot_images((IMAGE,), {})),
    "Profile",
)
ACTIONS = {
    "CreateFleet": CREATE_FLEET,
    "CreateLaunchTemplate": CREATE_LAUNCH_TEMPLATE,
    "RunInstances": RUN_INSTANCES,
}


def authorization(ports: Ports, **settings: Any) -> Authorization:
    return Authorization(with_settings(ports, **settings))


def calls(control: Control) -> list[str]:
    return [call["action"] for call in control.get("calls")["calls"]]


def test_what_is_tried_is_what_a_launch_would_ask() -> None:
    """Policies look at tags, profile, subnet and groups: they must be those of the class (IAM-01)."""
    fleet, template, instances = requests(RESOLVED, "dev")
    tags = {
        "team": "blue",
        "kubernetes.io/cluster/dev": "owned",
        "eks:eks-cluster-name": "dev",
        keys.NODE_CLASS: NODE_CLASS.name,
        keys.NODE_POOL: "dry-run",
    }
    for request in (fleet, template, instances):
        for one in request["TagSpecifications"]:
            assert {tag["Key"]: tag["Value"] for tag in one["Tags"]} == tags
    (config,) = fleet["LaunchTemplateConfigs"]
    assert config["Overrides"] == [{"InstanceType": "m6g.large", "SubnetId": "subnet-1"}]
    assert template["LaunchTemplateData"]["ImageId"] == "ami-1"
    assert (instances["ImageId"], instances["SubnetId"]) == ("ami-1", "subnet-1")
    assert instances["SecurityGroupIds"] == ["sg-1", "sg-2"]
    assert instances["IamInstanceProfile"] == {"Name": "Profile"}


async def test_a_class_that_passed_is_asked_again_after_half_an_hour_or_an_edit(
    ports: Ports, control: Control, clock: FakeClock
) -> None:
    """EC-18: dry runs; LCH-90: how long answers are kept."""
    checks = authorization(ports)
    for _ in range(2):
        assert await checks.problems(RESOLVED) == []
    assert sorted(calls(control)) == sorted(ACTIONS)
    edited = replace(RESOLVED, node_class=replace(NODE_CLASS, generation=2))
    assert await checks.problems(edited) == []
    assert len(calls(control)) == 6
    clock.advance(AUTHORIZATION_FRESH_SECONDS)
    assert await checks.problems(edited) == []
    assert len(calls(control)) == 9
    assert control.instances() == []


@pytest.mark.parametrize("action", ACTIONS)
async def test_each_missing_permission_has_a_reason_of_its_own(
    ports: Ports, control: Control, clock: FakeClock, action: str
) -> None:
    """EC-17; once the policy is mended the next look finds it."""
    checks = authorization(ports)
    control.post("faults", action=action, code="UnauthorizedOperation", status=403)
    (problem,) = await checks.problems(RESOLVED)
    assert (problem.condition, problem.reason) == ("ValidationSucceeded", ACTIONS[action])
    assert f"allow ec2:{action}" in problem.message
    assert await checks.problems(RESOLVED) == []


async def test_a_mistake_of_the_class_is_told_and_what_may_pass_is_not(
    ports: Ports, control: Control, clock: FakeClock
) -> None:
    """A profile that was just made is unknown to EC2 for some seconds: that holds no class up."""
    checks = authorization(ports)
    control.post("faults", action="RunInstances", code="InvalidBlockDeviceMapping", status=400)
    (problem,) = await checks.problems(RESOLVED)
    assert problem.reason == "InvalidBlockDeviceMapping"
    control.post("faults", action="RunInstances", code="InvalidParameterValue", status=400)
    assert await checks.problems(RESOLVED) == []
    before = len(calls(control))
    assert await checks.problems(RESOLVED) == []
    assert len(calls(control)) == before + 3


async def test_a_throttled_check_says_nothing_about_the_class(
    ports: Ports, control: Control, clock: FakeClock
) -> None:
    control.post("faults", action="RunInstances", code="RequestLimitExceeded", status=503)
    with pytest.raises(Throttled):
        await authorization(ports).problems(RESOLVED)


async def test_no_dry_runs_where_they_are_off_and_for_v1alpha1(
    ports: Ports, control: Control, clock: FakeClock
) -> None:
    """DISABLE_DRY_RUN; older classes have no such condition."""
    assert await authorization(ports, disable_dry_run=True).problems(RESOLVED) == []
    old = replace(RESOLVED, node_class=replace(NODE_CLASS, generation_api=V1ALPHA5))
    assert await authorization(ports).problems(old) == []
    assert calls(control) == []
