"""Instance profiles of node classes (EC-07, EC-21), against the emulator's IAM."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.launcher.node_class.instance_profiles import (
    PROFILE_FRESH_SECONDS,
    InstanceProfiles,
    profile_name,
    profile_path,
)
from services.launcher.ports import Ports
from shared.cloud.client.session import Cloud
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass
from shared.errors import InvalidObject, NotFound, Unauthorized
from tests.services.conftest import CLUSTER, Control
from tests.services.launcher.conftest import with_settings
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_node_class

ROLE = f"KarpenterNodeRole-{CLUSTER}"
SEEDED = f"KarpenterNodeInstanceProfile-{CLUSTER}"
PATH = f"/karpenter/us-west-2/{CLUSTER}/class-default/"


@pytest.fixture
def profiles(ports: Ports) -> InstanceProfiles:
    return InstanceProfiles(with_settings(ports, default_instance_profile="Default"))


def v1(**fields: Any) -> NodeClass:
    return make_node_class(generation_api=V1, **fields)


def calls(control: Control, action: str) -> list[dict[str, Any]]:
    return [one for one in control.get("calls")["calls"] if one["action"] == action]


@given(st.text(max_size=40), st.text(max_size=64))
def test_a_name_is_stable_and_fits_in_iams_limit(uid: str, role: str) -> None:
    """EC-21: 128 characters; EKS allows 100 for a cluster's name."""
    name = profile_name("c" * 100, "us-gov-west-1", uid, role)
    assert name == profile_name("c" * 100, "us-gov-west-1", uid, role)
    assert name.startswith("c" * 100 + "_")
    assert len(name) <= 128
    assert name != profile_name("c" * 100, "us-gov-west-1", uid, role + "x")


async def test_a_class_with_a_role_gets_a_profile_of_its_own(
    profiles: InstanceProfiles, cloud: Cloud, control: Control
) -> None:
    """EC-21: name, path, role, tags."""
    name = await profiles.resolve(v1(role=ROLE, tags={"team": "blue"}))
    made = await cloud.iam.instance_profile(name)
    assert name.startswith(f"{CLUSTER}_")
    assert (made.path, made.roles) == (PATH, (ROLE,))
    (call,) = calls(control, "CreateInstanceProfile")
    text = str(call["parameters"])
    for tag in (
        "team",
        f"kubernetes.io/cluster/{CLUSTER}",
        "eks:eks-cluster-name",
        "karpenter.k8s.aws/ec2nodeclass",
        "topology.kubernetes.io/region",
    ):
        assert tag in text


async def test_it_is_looked_at_every_quarter_of_an_hour_and_mended(
    profiles: InstanceProfiles, cloud: Cloud, control: Control, clock: FakeClock
) -> None:
    """LCH-90: how long answers are kept."""
    name = await profiles.resolve(v1(role=ROLE))
    await cloud.iam.delete_instance_profile(await cloud.iam.instance_profile(name))
    clock.advance(PROFILE_FRESH_SECONDS - 1)
    await profiles.resolve(v1(role=ROLE))
    assert len(calls(control, "CreateInstanceProfile")) == 1
    clock.advance(2)
    assert await profiles.resolve(v1(role=ROLE)) == name
    assert (await cloud.iam.instance_profile(name)).roles == (ROLE,)


async def test_another_role_is_another_profile_and_the_old_one_stays(
    profiles: InstanceProfiles, cloud: Cloud
) -> None:
    """EC-07: machines with the old one still run."""
    first = await profiles.resolve(v1(role=ROLE))
    second = await profiles.resolve(v1(role=f"{CLUSTER}-cluster"))
    assert first != second
    assert (await cloud.iam.instance_profile(first)).roles == (ROLE,)


async def test_all_profiles_of_a_class_go_with_it_and_no_others(
    profiles: InstanceProfiles, cloud: Cloud
) -> None:
    """EC-20: finalizer of a node class."""
    for role in (ROLE, f"{CLUSTER}-cluster"):
        await profiles.resolve(v1(role=role))
    other = await profiles.resolve(make_node_class("other", generation_api=V1, role=ROLE))
    for _ in range(2):
        await profiles.delete_all("class-default")
    assert await cloud.iam.instance_profiles(PATH) == []
    await cloud.iam.instance_profile(other)
    await cloud.iam.instance_profile(SEEDED)


async def test_a_deleted_profile_is_made_again_when_it_is_wanted(
    profiles: InstanceProfiles, cloud: Cloud
) -> None:
    name = await profiles.resolve(v1(role=ROLE))
    await profiles.delete_all("class-default")
    with pytest.raises(NotFound):
        await cloud.iam.instance_profile(name)
    assert await profiles.resolve(v1(role=ROLE)) == name
    await cloud.iam.instance_profile(name)


async def test_a_named_profile_is_checked_and_never_made(profiles: InstanceProfiles) -> None:
    """EC-17 InstanceProfileNotFound."""
    assert await profiles.resolve(v1(instance_profile=SEEDED)) == SEEDED
    with pytest.raises(InvalidObject, match="IAM has no instance profile Other") as raised:
        await profiles.resolve(v1(instance_profile="Other"))
    assert raised.value.field == "spec.instanceProfile"


async def test_a_missing_role_is_named(profiles: InstanceProfiles) -> None:
    with pytest.raises(InvalidObject, match="IAM has no role Nobody") as raised:
        await profiles.resolve(v1(role="Nobody"))
    assert raised.value.field == "spec.role"
    assert raised.value.context["reason"] == "InstanceProfileNotFound"


async def test_without_permission_to_look_a_named_profile_is_believed(
    profiles: InstanceProfiles, control: Control
) -> None:
    """Who makes profiles outside may keep IAM closed; a role is another matter."""
    denied = {"action": "GetInstanceProfile", "code": "AccessDenied", "status": 403}
    control.post("faults", **denied)
    assert await profiles.resolve(v1(instance_profile=SEEDED)) == SEEDED
    control.post("faults", **denied)
    with pytest.raises(Unauthorized, match="iam:GetInstanceProfile"):
        await profiles.resolve(v1(role=ROLE))


async def test_v1alpha1_names_a_profile_or_takes_the_default(
    profiles: InstanceProfiles, cloud: Cloud, control: Control
) -> None:
    """T-05: checked like any other, never made."""
    await cloud.iam.ensure_instance_profile("Default", role=ROLE, path="/", tags={})
    made = len(calls(control, "CreateInstanceProfile"))
    named = make_node_class(generation_api=V1ALPHA5, instance_profile=SEEDED)
    assert await profiles.resolve(named) == SEEDED
    assert await profiles.resolve(make_node_class(generation_api=V1ALPHA5)) == "Default"
    with pytest.raises(InvalidObject, match="IAM has no instance profile Mine"):
        await profiles.resolve(make_node_class(generation_api=V1ALPHA5, instance_profile="Mine"))
    assert len(calls(control, "CreateInstanceProfile")) == made


async def test_v1alpha1_without_any_profile_gets_none(
    profiles: InstanceProfiles, control: Control
) -> None:
    """T-05: nothing to look up."""
    bare = InstanceProfiles(with_settings(profiles.ports))
    assert await bare.resolve(make_node_class(generation_api=V1ALPHA5)) == ""
    assert calls(control, "GetInstanceProfile") == []


def test_the_path_names_region_cluster_and_class() -> None:
    assert profile_path("dev", "eu-west-1", "uid-1") == "/karpenter/eu-west-1/dev/uid-1/"
