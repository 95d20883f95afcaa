"""EC2NodeClasses of a story, and what EC2 and its emulator say of the machines that come from them."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from cli.demo import workload
from local.probe import request_json
from tests.support.aws.emulator import whole_ec2
from tests.support.stories.playground import Playground, ShellKubectl
from tests.support.stories.scale_down import family

Json = dict[str, Any]


def one_of(key: str, *values: str) -> Json:
    """A requirement: the label has one of these values."""
    return {"key": key, "operator": "In", "values": [*values]}


def machines(kind: str, *more: Json) -> list[Json]:
    """Requirements: machines of two vCPU of a family. Each takes one pod of 1500m."""
    return [*family(kind), one_of("karpenter.k8s.aws/instance-cpu", "2"), *more]


async def class_with(ground: Playground, kubectl: ShellKubectl, name: str, **spec: Any) -> Json:
    """Apply an EC2NodeClass; returns what a NodePool's template says of it."""
    document = workload.node_class(ground.environment.cluster_name)
    document["metadata"]["name"] = name
    document["spec"] |= spec
    await kubectl.apply(document)
    return {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}}


async def order(ground: Playground, path: str, **body: Any) -> Json:
    """Ask it of the emulator's control endpoint."""
    url = f"{ground.environment.aws_endpoint_url}/_dovetail/{path}"
    return dict(await asyncio.to_thread(request_json, url, body=body))


async def calls_of(ground: Playground, action: str) -> list[Json]:
    """The calls of an action that AWS got, oldest first."""
    url = f"{ground.environment.aws_endpoint_url}/_dovetail/calls?action={action}"
    return list((await asyncio.to_thread(request_json, url))["calls"])


async def instances_of(ground: Playground, nodes: list[Json]) -> list[Json]:
    """What EC2 says of the nodes' instances."""
    ids = [node["spec"]["providerID"].rpartition("/")[2] for node in nodes]
    async with whole_ec2(ground.environment.aws_endpoint_url) as ec2:
        found = await ec2.describe_instances(InstanceIds=ids)
    return [one for row in found["Reservations"] for one in row["Instances"]]


async def boot_data(ground: Playground, instance: str) -> str:
    """What the instance was given to run at its first boot."""
    url = f"{ground.environment.aws_endpoint_url}/_dovetail/instances"
    rows = (await asyncio.to_thread(request_json, url))["instances"]
    (encoded,) = (row["userData"] for row in rows if row["instanceId"] == instance)
    return base64.b64decode(encoded).decode()


def labels(nodes: list[Json], key: str) -> list[str]:
    """The values of a label, sorted; empty for a node without it."""
    return sorted(node["metadata"]["labels"].get(key, "") for node in nodes)
