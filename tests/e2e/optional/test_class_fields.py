"""Fields of an EC2NodeClass that change what EC2 is asked for, on the local stack: enclaves."""

from __future__ import annotations

from typing import Any

import pytest

from cli.demo import workload
from shared.domain.labels import CAPACITY_TYPE, ON_DEMAND
from tests.support.aws.emulator import whole_ec2
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import Playground, ShellKubectl
from tests.support.stories.scale_down import Pool, instance_type

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, NEEDS_KUBECTL]


def two_families(*names: str) -> list[dict[str, Any]]:
    return [
        {"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [*names]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]},
    ]


@pytest.fixture
def pool(playground: Playground, kubectl: ShellKubectl) -> Pool:
    return Pool(playground, kubectl, "NodePool", "fields")


async def templates(ground: Playground) -> list[dict[str, Any]]:
    """What the launch templates that are there say."""
    async with whole_ec2(ground.environment.aws_endpoint_url) as ec2:
        found = []
        for one in (await ec2.describe_launch_templates())["LaunchTemplates"]:
            versions = await ec2.describe_launch_template_versions(
                LaunchTemplateId=one["LaunchTemplateId"], Versions=["$Latest"]
            )
            found += [one["LaunchTemplateData"] for one in versions["LaunchTemplateVersions"]]
    return found


async def test_enclaves_are_asked_for_on_types_that_have_them(
    playground: Playground, pool: Pool
) -> None:
    """t3 is cheaper and has no enclaves."""
    document = workload.node_class(playground.environment.cluster_name)
    document["spec"]["enclaveOptions"] = {"enabled": True}
    await pool.kubectl.apply(document)
    await pool.apply(two_families("t3", "m5"), disruption={"consolidateAfter": "Never"})
    await pool.run(1)
    (node,) = await pool.serving(1)
    assert instance_type(node) == "m5.xlarge"
    asked = [one.get("EnclaveOptions") for one in await templates(playground)]
    assert {"Enabled": True} in asked
