"""The emulator, reset before each test; real aiobotocore clients over real HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from aiobotocore.config import AioConfig

from local.aws.ec2.images import image_for
from tests.support.aws.emulator import aws_session
from tests.support.waiting import wait_until

IMAGE_PARAMETER = (
    "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"
)
IMAGE = image_for(IMAGE_PARAMETER)


@dataclass(frozen=True)
class ControlClient:
    """The control endpoint of one emulator."""

    url: str

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """(HTTP status, JSON)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_dovetail/{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def post(self, path: str, body: Any = None) -> Any:
        """The answer of a POST that must succeed."""
        status, answer = self.call("POST", path, {} if body is None else body)
        assert status == 200, answer
        return answer

    def get(self, path: str) -> Any:
        """The answer of a GET that must succeed."""
        status, answer = self.call("GET", path)
        assert status == 200, answer
        return answer

    def states(self) -> dict[str, str]:
        """State by instance id."""
        return {row["instanceId"]: row["state"] for row in self.get("instances")["instances"]}


@pytest.fixture
def control(aws_emulator_url: str) -> ControlClient:
    """A freshly reset emulator."""
    client = ControlClient(aws_emulator_url)
    client.post("reset")
    return client


@pytest.fixture
async def aws(aws_emulator_url: str, control: ControlClient) -> AsyncIterator[Callable[..., Any]]:
    """``await aws("ec2")`` gives a client without retries, so that each fault is seen."""
    async with AsyncExitStack() as stack:

        async def client(service: str) -> Any:
            return await stack.enter_async_context(
                aws_session().create_client(
                    service,
                    region_name="us-west-2",
                    endpoint_url=aws_emulator_url,
                    aws_access_key_id="local",
                    aws_secret_access_key="local",
                    config=AioConfig(
                        retries={"total_max_attempts": 1}, read_timeout=60, max_pool_connections=120
                    ),
                )
            )

        yield client


@pytest.fixture
async def ec2(aws: Callable[..., Any]) -> Any:
    """An EC2 client."""
    return await aws("ec2")


@dataclass(frozen=True)
class Network:
    """The seeded resources, and a launch template ``nodes`` on them."""

    subnets: dict[str, str]
    group_id: str
    image_id: str


@pytest.fixture
async def network(ec2: Any) -> Network:
    """Subnet by zone, security group, image; creates the launch template."""
    assert IMAGE is not None
    discovery = [{"Name": "tag:karpenter.sh/discovery", "Values": ["dovetail-local"]}]
    subnets = await ec2.describe_subnets(Filters=discovery)
    groups = await ec2.describe_security_groups(Filters=discovery)
    found = Network(
        {row["AvailabilityZone"]: row["SubnetId"] for row in subnets["Subnets"]},
        groups["SecurityGroups"][0]["GroupId"],
        IMAGE.image_id,
    )
    await ec2.create_launch_template(
        LaunchTemplateName="nodes",
        LaunchTemplateData={
            "ImageId": found.image_id,
            "SecurityGroupIds": [found.group_id],
            "UserData": "aGVsbG8=",
            "IamInstanceProfile": {"Name": "KarpenterNodeInstanceProfile-dovetail-local"},
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
            "BlockDeviceMappings": [
                {
                    "DeviceName": "/dev/xvda",
                    "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True},
                }
            ],
        },
    )
    return found


def fleet(
    network: Network,
    pools: list[tuple[str, str]],
    *,
    total: int = 1,
    capacity_type: str = "on-demand",
    **more: Any,
) -> dict[str, Any]:
    """CreateFleet parameters for (type, zone letter) pools."""
    overrides = [
        {"InstanceType": name, "SubnetId": network.subnets[f"us-west-2{letter}"]}
        for name, letter in pools
    ]
    return {
        "Type": "instant",
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": total,
            "DefaultTargetCapacityType": capacity_type,
        },
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": "nodes",
                    "Version": "$Latest",
                },
                "Overrides": overrides,
            }
        ],
        **more,
    }


def instance_ids(answer: dict[str, Any]) -> list[str]:
    """Every instance id of a CreateFleet answer."""
    return [instance for group in answer["Instances"] for instance in group["InstanceIds"]]


async def eventually(condition: Callable[[], Any | Awaitable[Any]]) -> Any:
    """Ask until the condition is true."""
    return await wait_until(condition, "the state that the test waits for", every=0.02)
