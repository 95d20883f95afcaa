"""AWS: the queue with its rules, and the calls of a launch and a termination, tried as dry runs.

The credentials are those of the shell; those of a service's role give the best answer. Nothing is changed: EC2 answers
a dry run without acting, and a message that the queue's check receives is visible again at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from cli.operations.doctor.finding import Finding, Installation, failed, not_checked, ok
from cli.operations.interruption import findings_of, queue_name
from cli.stack.cluster import listed
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, cluster_tag
from shared.cloud.ec2.records import tag_specification
from shared.domain import labels as keys
from shared.errors import ConfigurationError, DovetailError, NotFound, Unauthorized
from shared.kube.client import Kube
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
    MACHINES,
    NODE_CLAIMS,
    Resource,
)

CREDENTIALS = "export AWS_REGION and credentials, best those of a service's role (deploy/iam)"
POLICIES = "create the roles anew: deploy/iam, or its CloudFormation or Terraform"
NAME = "dovetail-doctor"
MISSING = "kubectl get ec2nodeclasses,awsnodetemplates,nodeclaims,machines"
TYPES = {"arm64": "m6g.large"}
Json = dict[str, Any]


@asynccontextmanager
async def cloud_of(installation: Installation) -> AsyncIterator[Cloud]:
    """Raises ConfigurationError without a region or credentials."""
    variables = installation.variables
    cloud = await Cloud.connect(
        region=variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or "",
        endpoint_url=variables.get("AWS_ENDPOINT_URL"), clock=installation.clock, random=Random(),
        user_agent=NAME,
    )  # fmt: skip
    try:
        yield cloud
    finally:
        await cloud.close()


async def queue(installation: Installation) -> AsyncIterator[Finding]:
    """What ``dovetail interruption check`` finds."""
    try:
        name = queue_name(None, installation.variables)
        async with cloud_of(installation) as cloud:
            async for what, missing in findings_of(cloud, name):
                mend = "deploy/iam creates all of it with CloudFormation or Terraform"
                yield failed(what, missing, mend) if missing else ok(what)
    except ConfigurationError as error:
        yield not_checked("interruption queue", error.message, f"{CREDENTIALS}; INTERRUPTION_QUEUE")


async def dry_runs(installation: Installation) -> AsyncIterator[Finding]:
    """CreateLaunchTemplate, CreateFleet and RunInstances for a node class that is ready, TerminateInstances for a
    machine."""
    try:
        async with cloud_of(installation) as cloud:
            async for finding in _tried(installation, cloud):
                yield finding
    except ConfigurationError as error:
        yield not_checked("EC2 dry runs", error.message, CREDENTIALS)


async def _tried(installation: Installation, cloud: Cloud) -> AsyncIterator[Finding]:
    calls = {
        "CreateLaunchTemplate": cloud.dry_runs.create_launch_template,
        "CreateFleet": cloud.dry_runs.create_fleet,
        "RunInstances": cloud.dry_runs.run_instances,
        "TerminateInstances": cloud.dry_runs.terminate_instances,
    }
    requests = await _requests(installation)
    for name, call in calls.items():
        check = f"EC2 allows {name}"
        request = requests.get(name)
        if isinstance(request, str) or request is None:
            yield not_checked(check, str(request), MISSING)
            continue
        try:
            await call(request)
            yield ok(check)
        except Unauthorized as error:
            yield failed(check, error.message, POLICIES)
        except NotFound as error:
            # The permission is checked first; a dry run of a fleet has no launch template to find.
            yield ok(check, f"allowed; {error.message}")
        except DovetailError as error:
            yield not_checked(check, error.message, "run it again; AWS answered neither yes nor no")


async def _requests(installation: Installation) -> Mapping[str, Json | str]:
    """By call: what to try, or why it cannot be tried."""
    if not installation.cluster:
        why = "CLUSTER_NAME is not set, and the policies allow the cluster's tags only"
        return dict.fromkeys(("CreateLaunchTemplate", "CreateFleet", "RunInstances"), why) | {
            "TerminateInstances": why
        }
    return {
        **await _launch_requests(installation.kube, installation.cluster),
        "TerminateInstances": await _termination_request(installation.kube),
    }


async def _launch_requests(kube: Kube, cluster: str) -> dict[str, Json | str]:
    for resource in (EC2_NODE_CLASSES, AWS_NODE_TEMPLATES):
        for raw in await listed(kube, resource):
            status = raw.get("status") or {}
            if all(status.get(part) for part in ("amis", "subnets", "securityGroups")):
                tags = launch_tags(resource, raw["metadata"]["name"], cluster)
                return dict(launch_requests(status, tags))
    why = "no EC2NodeClass or AWSNodeTemplate has found its images, subnets and security groups yet"
    return dict.fromkeys(("CreateLaunchTemplate", "CreateFleet", "RunInstances"), why)


def launch_tags(resource: Resource, node_class: str, cluster: str) -> dict[str, str]:
    """The tags of a launch with a class of this kind, which the policies of its generation ask for."""
    owned = {cluster_tag(cluster): "owned"}
    if resource is AWS_NODE_TEMPLATES:
        return {**owned, keys.PROVISIONER_NAME: NAME, keys.MANAGED_BY: cluster}
    named = {CLUSTER_NAME_TAG: cluster, keys.NODE_CLASS: node_class}
    return {**owned, **named, keys.NODE_POOL: NAME}


def launch_requests(status: Json, tags: dict[str, str]) -> dict[str, Json]:
    """The three calls for a node class with this status."""
    image, subnet = status["amis"][0]["id"], status["subnets"][0]["id"]
    groups = [group["id"] for group in status["securityGroups"]]
    requirements = status["amis"][0].get("requirements") or []
    arch = [
        v for one in requirements if one.get("key") == "kubernetes.io/arch" for v in one["values"]
    ]
    kind = TYPES.get(arch[0] if arch else "", "m5.large")
    named = {"LaunchTemplateName": NAME, "Version": "$Latest"}
    configuration = {
        "LaunchTemplateSpecification": named,
        "Overrides": [{"InstanceType": kind, "SubnetId": subnet}],
    }
    target = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"}
    launched = [tag_specification(kind_of, tags) for kind_of in ("instance", "volume")]
    data = {"ImageId": image, "SecurityGroupIds": groups}
    return {
        "CreateLaunchTemplate": {
            "LaunchTemplateName": NAME, "LaunchTemplateData": data,
            "TagSpecifications": [tag_specification("launch-template", tags)],
        },
        "CreateFleet": {
            "Type": "instant", "LaunchTemplateConfigs": [configuration],
            "TargetCapacitySpecification": target,
            "TagSpecifications": [*launched, tag_specification("fleet", tags)],
        },
        "RunInstances": {
            **data, "InstanceType": kind, "MinCount": 1, "MaxCount": 1, "SubnetId": subnet,
            "TagSpecifications": launched,
        },
    }  # fmt: skip


async def _termination_request(kube: Kube) -> Json | str:
    for resource in (NODE_CLAIMS, MACHINES):
        for raw in await listed(kube, resource):
            provider = str((raw.get("status") or {}).get("providerID") or "")
            if (name := provider.rpartition("/")[2]).startswith("i-"):
                return {"InstanceIds": [name]}
    return "no machine has an instance yet, and the policies allow the cluster's instances only"
