"""Instance profiles over the wire, against the emulator (EC-21)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.cloud.client.session import Cloud
from shared.cloud.iam import InstanceProfile
from shared.errors import NotFound, Throttled, Unauthorized

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROLE = "KarpenterNodeRole-dovetail-local"
OTHER_ROLE = "dovetail-local-cluster"


async def ensure(cloud: Cloud, name: str, role: str = ROLE, path: str = "/test/a/") -> None:
    tags = {"karpenter.k8s.aws/ec2nodeclass": "default"}
    await cloud.iam.ensure_instance_profile(name, role=role, path=path, tags=tags)


async def test_a_profile_is_made_with_its_role_and_found_by_path(cloud: Cloud) -> None:
    await ensure(cloud, "one", path="/test/one/")
    made = InstanceProfile("one", "/test/one/", (ROLE,))
    assert await cloud.iam.instance_profile("one") == made
    assert await cloud.iam.instance_profiles("/test/one/") == [made]
    assert await cloud.iam.instance_profiles("/test/") == []


async def test_making_it_again_changes_nothing(cloud: Cloud) -> None:
    for _ in range(2):
        await ensure(cloud, "again")
    assert (await cloud.iam.instance_profile("again")).roles == (ROLE,)


async def test_two_launchers_may_make_it_at_once(cloud: Cloud) -> None:
    await asyncio.gather(*(ensure(cloud, "race") for _ in range(5)))
    assert (await cloud.iam.instance_profile("race")).roles == (ROLE,)


async def test_a_profile_holds_the_role_that_is_asked_for_and_no_other(cloud: Cloud) -> None:
    await ensure(cloud, "changed")
    await ensure(cloud, "changed", OTHER_ROLE)
    assert (await cloud.iam.instance_profile("changed")).roles == (OTHER_ROLE,)


async def test_a_role_that_is_missing_is_not_found(cloud: Cloud) -> None:
    with pytest.raises(NotFound):
        await ensure(cloud, "without", "no-such-role")


async def test_deleting_takes_the_role_out_and_may_be_repeated(cloud: Cloud) -> None:
    await ensure(cloud, "gone")
    profile = await cloud.iam.instance_profile("gone")
    for _ in range(2):
        await cloud.iam.delete_instance_profile(profile)
    with pytest.raises(NotFound):
        await cloud.iam.instance_profile("gone")


async def test_a_denied_call_names_the_permission(cloud: Cloud, control: Any) -> None:
    await control.fault("CreateInstanceProfile", "AccessDenied", status=403)
    with pytest.raises(Unauthorized, match="iam:CreateInstanceProfile"):
        await ensure(cloud, "denied")
    await control.fault("AddRoleToInstanceProfile", "Throttling", status=400)
    with pytest.raises(Throttled):
        await ensure(cloud, "denied")
    await ensure(cloud, "denied")
    assert (await cloud.iam.instance_profile("denied")).roles == (ROLE,)
