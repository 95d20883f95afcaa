"""Who acts as which role: Pod Identity associations, access entries, and sessions held to their roles' policies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.conftest import ControlClient
from tests.support.aws.emulator import aws_session

CLUSTER = "dovetail-local"
POD = {"namespace": "dovetail", "serviceAccount": "dovetail-launcher"}
ROLE = "arn:aws:iam::123456789012:role/launcher"


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


async def test_an_association_is_found_by_its_account_until_it_is_deleted(
    aws: Callable[..., Any],
) -> None:
    eks = await aws("eks")
    made = await eks.create_pod_identity_association(clusterName=CLUSTER, roleArn=ROLE, **POD)
    identity = made["association"]["associationId"]
    (found,) = (await eks.list_pod_identity_associations(clusterName=CLUSTER, **POD))[
        "associations"
    ]
    assert found["associationId"] == identity
    other = {"namespace": "other"}
    listed = await eks.list_pod_identity_associations(clusterName=CLUSTER, **other)
    assert listed["associations"] == []
    with pytest.raises(ClientError) as again:
        await eks.create_pod_identity_association(clusterName=CLUSTER, roleArn=ROLE, **POD)
    assert code(again) == "ResourceInUseException"
    named = {"clusterName": CLUSTER, "associationId": identity}
    shown = await eks.describe_pod_identity_association(**named)
    assert shown["association"]["roleArn"] == ROLE
    await eks.delete_pod_identity_association(**named)
    with pytest.raises(ClientError) as gone:
        await eks.describe_pod_identity_association(**named)
    assert code(gone) == "ResourceNotFoundException"


async def test_an_access_entry_is_listed_by_its_principal(aws: Callable[..., Any]) -> None:
    eks = await aws("eks")
    await eks.create_access_entry(clusterName=CLUSTER, principalArn=ROLE, type="EC2_LINUX")
    assert (await eks.list_access_entries(clusterName=CLUSTER))["accessEntries"] == [ROLE]
    shown = await eks.describe_access_entry(clusterName=CLUSTER, principalArn=ROLE)
    assert shown["accessEntry"]["type"] == "EC2_LINUX"


async def test_a_cluster_that_does_not_exist_has_no_access(aws: Callable[..., Any]) -> None:
    eks = await aws("eks")
    with pytest.raises(ClientError) as missing:
        await eks.list_access_entries(clusterName="other")
    assert code(missing) == "ResourceNotFoundException"


async def test_a_session_may_do_what_the_policies_of_its_role_allow(
    aws: Callable[..., Any], aws_emulator_url: str, control: ControlClient
) -> None:
    iam, sts = await aws("iam"), await aws("sts")
    await iam.create_role(RoleName="launcher", AssumeRolePolicyDocument="{}")
    statement = {"Effect": "Allow", "Action": "ec2:DescribeInstances", "Resource": "*"}
    policy = await iam.create_policy(
        PolicyName="look",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": statement}),
    )
    await iam.attach_role_policy(RoleName="launcher", PolicyArn=policy["Policy"]["Arn"])
    taken = (await sts.assume_role(RoleArn=ROLE, RoleSessionName="pod"))["Credentials"]
    session = aws_session().create_client(
        "ec2",
        region_name="us-west-2",
        endpoint_url=aws_emulator_url,
        aws_access_key_id=taken["AccessKeyId"],
        aws_secret_access_key=taken["SecretAccessKey"],
        aws_session_token=taken["SessionToken"],
    )
    async with session as ec2:
        await ec2.describe_instances()
        with pytest.raises(ClientError, match="assumed-role/launcher/pod is not auth") as refused:
            await ec2.describe_subnets()
        assert code(refused) == "UnauthorizedOperation"
        await iam.detach_role_policy(RoleName="launcher", PolicyArn=policy["Policy"]["Arn"])
        with pytest.raises(ClientError):
            await ec2.describe_instances()
