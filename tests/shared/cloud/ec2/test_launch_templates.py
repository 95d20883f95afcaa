"""Launch templates and dry runs against the emulator (LCH-20..22, T-07, EC-06, EC-18)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.cloud.client.session import Cloud
from shared.errors import LaunchRejected, NotFound, Unauthorized
from tests.support.aws.emulator import make_placement_group, make_snapshot, whole_ec2

pytestmark = pytest.mark.asyncio(loop_scope="module")

DATA = {"ImageId": "ami-0123456789abcdef0"}


async def test_a_launch_template_is_made_once_and_may_be_gone_already(
    cloud: Cloud, control: Any
) -> None:
    """LCH-20..LCH-22: names, reuse and lifetime of launch templates."""
    made, is_new = await cloud.launch_templates.ensure("test-once", DATA, {"owner": "once"})
    found, is_newer = await cloud.launch_templates.ensure("test-once", DATA, {"owner": "once"})
    assert (is_new, is_newer) == (True, False)
    assert (found.id, found.version, found.tags) == (made.id, 1, {"owner": "once"})
    tagged = await cloud.launch_templates.tagged({"owner": "once"})
    assert [template.name for template in tagged] == ["test-once"]
    await cloud.launch_templates.delete(made)
    assert await cloud.launch_templates.tagged({"owner": "once"}) == []
    gone = "InvalidLaunchTemplateId.NotFound"
    await control.fault("DeleteLaunchTemplate", gone, status=400)
    await cloud.launch_templates.delete(made)


async def test_a_template_of_the_same_name_made_since_stays(cloud: Cloud) -> None:
    """Whoever deletes an old one must not hit the new one."""
    old, _ = await cloud.launch_templates.ensure("test-again", DATA, {"owner": "again"})
    await cloud.launch_templates.delete(old)
    new, _ = await cloud.launch_templates.ensure("test-again", DATA, {"owner": "again"})
    await cloud.launch_templates.delete(old)
    assert (await cloud.launch_templates.named("test-again")).id == new.id


async def test_what_a_template_says_can_be_read(cloud: Cloud) -> None:
    """T-07: launchTemplate excludes other fields."""
    made, _ = await cloud.launch_templates.ensure("test-content", DATA, {"owner": "content"})
    assert (await cloud.launch_templates.data(made))["ImageId"] == DATA["ImageId"]
    with pytest.raises(NotFound):
        await cloud.launch_templates.named("no-such-template")


async def test_a_dry_run_is_silent_when_the_call_is_allowed(cloud: Cloud, control: Any) -> None:
    """EC-18: a refusal names the permission; anything else is told as it is."""
    request: dict[str, Any] = {"LaunchTemplateName": "dry", "LaunchTemplateData": DATA}
    await cloud.dry_runs.create_launch_template(request)
    with pytest.raises(NotFound):
        await cloud.launch_templates.named("dry")
    await control.fault("CreateLaunchTemplate", "UnauthorizedOperation", status=403)
    with pytest.raises(Unauthorized, match="ec2:CreateLaunchTemplate"):
        await cloud.dry_runs.create_launch_template(request)
    await control.fault("RunInstances", "InvalidBlockDeviceMapping", status=400)
    with pytest.raises(LaunchRejected):
        await cloud.dry_runs.run_instances({"MinCount": 1, "MaxCount": 1})


async def test_placement_groups_are_found_by_name_or_id(
    cloud: Cloud, aws_emulator_url: str
) -> None:
    """EC-06: one that does not exist is simply not found."""
    identity = await make_placement_group(aws_emulator_url, "rack", "cluster")
    async with whole_ec2(aws_emulator_url) as client:
        for selector in ({"name": "rack"}, {"id": identity}):
            (found,) = await cloud.ec2.placement_groups(selector)
            assert (found.name, found.id, found.partitions) == ("rack", identity, 0)
        assert await cloud.ec2.placement_groups({"name": "other"}) == []
        await client.delete_placement_group(GroupName="rack")
        assert await cloud.ec2.placement_groups({"name": "rack"}) == []


async def test_sizes_of_snapshots_are_known_unless_they_do_not_exist(
    cloud: Cloud, aws_emulator_url: str
) -> None:
    """T-09: block device mappings."""
    snapshot = await make_snapshot(aws_emulator_url, 33)
    sizes = await cloud.ec2.snapshot_sizes([snapshot, "snap-00000000000000000"])
    assert sizes == {snapshot: 33}
