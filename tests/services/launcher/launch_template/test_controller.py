"""From a machine and its class to what EC2 was sent (LCH-20..26, T-07), and the labels of the first boot (LCH-37)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from structlog.testing import capture_logs

from services.launcher.launch_template.controller import boot_labels
from shared.cloud.client.session import Cloud
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import SelectorTerm
from shared.kube.client import Kube
from shared.kube.resources import AWS_NODE_TEMPLATES, MACHINES, NODE_CLAIMS
from tests.services.conftest import (
    CLUSTER,
    Control,
    create_machine,
    create_node_claim,
    create_node_class,
    create_pool,
)
from tests.services.launcher.conftest import Launcher
from tests.support.planning.builders import ZONES, make_machine

SEED = Path(__file__).parents[3] / "seeds" / "manifests" / "002-2-node-template-indented.yaml"
SEED_VOLUME = {
    "VolumeSize": 30,
    "VolumeType": "gp3",
    "Iops": 3000,
    "Throughput": 125,
    "Encrypted": True,
    "KmsKeyId": "arn:aws:kms:ap-northeast-2:558846430793:key/6f29df3a-fb94-48e4-b359-a88fb74ce78d",
    "DeleteOnTermination": True,
}


async def test_ec2_starts_a_nodeclaim_from_what_its_class_says(
    kube: Kube, cloud: Cloud, start: Callable[[], Launcher], control: Control
) -> None:
    """EC-08, EC-10, EC-21, IT-13, LCH-23: role, addresses and kubelet of the class; the emulator checks the profile."""
    kubelet = {"clusterDNS": ["10.0.0.10"], "maxPods": 20, "podsPerCore": 8}
    await create_node_class(kube, associatePublicIPAddress=False, kubelet=kubelet)
    await create_node_claim(kube)
    await start().launch.launch("NodeClaim/default-c")
    (instance,) = control.instances()
    assert instance["tags"][keys.NODE_CLASS] == "default"
    (template,) = await cloud.launch_templates.tagged({keys.NODE_CLASS: "default"})
    assert template.tags[keys.NODE_POOL] == "default"
    sent = created(control, template.name)
    assert sent["IamInstanceProfile"]["Name"].startswith(f"{CLUSTER}_")
    assert sent["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is False
    user_data = base64.b64decode(sent["UserData"]).decode()
    assert "kind: NodeConfig" in user_data
    for text in ("10.0.0.10", "karpenter.sh/nodepool=default", keys.UNREGISTERED_TAINT_KEY):
        assert text in user_data
    assert "maxPods: 16" in user_data
    claim = await kube.get(NODE_CLAIMS, "default-c")
    status, said = claim["status"], claim["metadata"]["annotations"]
    assert said[keys.INSTANCE_PROFILE_ANNOTATION] == sent["IamInstanceProfile"]["Name"], "NC-07"
    assert (status["capacity"]["pods"], status["allocatable"]["pods"]) == ("16", "16")


async def test_the_seeds_template_reaches_ec2_and_the_instance(
    kube: Kube, start: Callable[[], Launcher], control: Control
) -> None:
    """ACC-14, ACC-15, ACC-21, ACC-23, seed 002: recorded data and log lines of one launch, for this cluster."""
    manifest = yaml.safe_load(SEED.read_text())
    discovery = {"karpenter.sh/discovery": CLUSTER}
    own = {"subnetSelector": discovery, "securityGroupSelector": discovery}
    profile = f"KarpenterNodeInstanceProfile-{CLUSTER}"
    await create_pool(kube)
    spec = {**manifest["spec"], **own, "instanceProfile": profile}
    await kube.patch(AWS_NODE_TEMPLATES, "default", {"spec": spec})
    await create_machine(kube)
    with capture_logs() as lines:
        await start().launch.launch("Machine/default-a")
    (name,) = (line["launch-template-name"] for line in lines if "launch-template-id" in line)
    assert name.startswith(f"Karpenter-{CLUSTER}-")
    sent = created(control, name)
    assert sent["BlockDeviceMappings"] == [{"DeviceName": "/dev/xvda", "Ebs": SEED_VOLUME}]
    assert sent["Monitoring"] == {"Enabled": True}
    assert sent["IamInstanceProfile"] == {"Name": profile}
    (instance,) = control.instances()
    assert manifest["spec"]["tags"].items() <= instance["tags"].items()
    (call,) = control.get("calls?action=CreateFleet")["calls"]
    asked = call["parameters"]
    assert asked["TargetCapacitySpecification"]["TotalTargetCapacity"] == 1
    subnets = {
        (override["InstanceType"], override["AvailabilityZone"]): override["SubnetId"]
        for override in asked["LaunchTemplateConfigs"][0]["Overrides"]
    }
    assert recorded_runs(control, instance) == [
        {
            "instancesSet": {"items": [{"minCount": 1, "maxCount": 1}]},
            "instanceType": instance["instanceType"],
            "availabilityZone": instance["zone"],
            "subnetId": subnets[instance["instanceType"], instance["zone"]],
        }
    ]
    chain = [line for line in lines if line["event"] in CHAIN]
    assert list(dict.fromkeys(line["event"] for line in chain)) == list(CHAIN)
    for line in chain:
        assert CHAIN[line["event"]] <= set(line)
    launched = chain[-1]
    assert launched["id"] == instance["instanceId"]
    assert launched["hostname"] == instance["privateDnsName"]
    assert launched["provisioner"] == "default"
    assert launched["capacity-type"] == "on-demand"


CHAIN = {
    "discovered kubernetes version": {"kubernetes-version"},
    "discovered new ami": {"ami", "query"},
    "created launch template": {"launch-template-name", "launch-template-id"},
    "launched new instance": {"id", "hostname", "instance-type", "zone", "capacity-type"},
}
"""ACC-14: message -> keys, in causal order; the scheduler's part comes before (its test_plan_logs)."""


def recorded_runs(control: Control, instance: dict[str, Any]) -> list[dict[str, Any]]:
    """ACC-21, LCH-57: what CloudTrail has of this instance's launch, as far as the seed shows it."""
    events = [
        event
        for event in control.get("trail")["events"]
        if event["eventName"] == "RunInstances"
        and instance["instanceId"] in str(event["responseElements"])
    ]
    assert {event["userIdentity"]["invokedBy"] for event in events} == {"ec2fleet.amazonaws.com"}
    shown = ("instancesSet", "instanceType", "availabilityZone", "subnetId")
    return [{name: event["requestParameters"][name] for name in shown} for event in events]


async def test_a_nodeclaims_launch_is_told_in_the_words_of_v1(
    kube: Kube, start: Callable[[], Launcher], control: Control
) -> None:
    """LCH-72: the log line of a launch."""
    await create_node_class(kube)
    await create_node_claim(kube)
    with capture_logs() as lines:
        await start().launch.launch("NodeClaim/default-c")
    (instance,) = control.instances()
    (line,) = (line for line in lines if line["event"] == "launched nodeclaim")
    assert line["NodeClaim"] == {"name": "default-c"}
    assert line["provider-id"] == f"aws:///{instance['zone']}/{instance['instanceId']}"
    assert line["instance-type"] == instance["instanceType"]
    assert line["zone"] == instance["zone"]
    assert line["capacity-type"] == "on-demand"
    assert {"cpu", "memory", "pods"} <= set(line["allocatable"])
    assert "discovered amis" in [line["event"] for line in lines]


async def test_a_template_of_the_user_starts_the_machine(
    kube: Kube, cloud: Cloud, start: Callable[[], Launcher], control: Control
) -> None:
    """T-07: nothing is made, and the machine has the template's image."""
    (image, *_) = await cloud.ec2.images([SelectorTerm(name="amazon-eks-node-1.32-*")])
    await cloud.launch_templates.ensure("mine", {"ImageId": image.id}, {"by": "me"})
    await create_pool(kube)
    spec = {"launchTemplate": "mine", "securityGroupSelector": None}
    await kube.patch(AWS_NODE_TEMPLATES, "default", {"spec": spec})
    arch = {"key": keys.ARCH, "operator": "In", "values": ["amd64"]}
    await create_machine(kube, requirements=[arch])
    await start().launch.launch("Machine/default-a")
    (instance,) = control.instances()
    assert instance["imageId"] == image.id
    labels = (await kube.get(MACHINES, "default-a"))["metadata"]["labels"]
    assert labels["karpenter.k8s.aws/instance-ami-id"] == image.id
    assert [call["parameters"]["LaunchTemplateName"] for call in templates_made(control)] == [
        "mine"
    ]


def templates_made(control: Control) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = control.get("calls?action=CreateLaunchTemplate")["calls"]
    return found


def created(control: Control, name: str) -> dict[str, Any]:
    """The data of a template as it was sent to EC2."""
    (call,) = (
        call["parameters"]
        for call in templates_made(control)
        if call["parameters"]["LaunchTemplateName"] == name
    )
    data: dict[str, Any] = call["LaunchTemplateData"]
    return data


def test_v1_nodes_say_that_they_come_up_with_their_taints() -> None:
    """LCH-39; a v1alpha5 node has the labels of IT-46 and no other."""
    assert boot_labels(make_machine(generation_api=V1))[keys.DO_NOT_SYNC_TAINTS] == "true"
    assert keys.DO_NOT_SYNC_TAINTS not in boot_labels(make_machine())


def test_the_kubelet_sets_the_labels_it_may_set() -> None:
    """LCH-37: decided requirements and own labels; what the kubelet knows better is left to it."""
    machine = make_machine(
        labels={keys.PROVISIONER_NAME: "default", "team": "blue", "sub.k8s.io/secret": "x"},
        requirements=(
            Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT,)),
            Expression(keys.ARCH, "In", ("amd64",)),
            Expression(keys.ZONE, "In", (ZONES[0],)),
            Expression(keys.INSTANCE_TYPE, "In", ("m5.large",)),
            Expression("size", "In", ("a", "b")),
        ),
    )
    labels = boot_labels(machine)
    assert labels[keys.CAPACITY_TYPE] == keys.SPOT
    assert labels[keys.PROVISIONER_NAME] == "default"
    assert labels["team"] == "blue"
    assert not {keys.ARCH, keys.ZONE, keys.INSTANCE_TYPE, "sub.k8s.io/secret"} & set(labels)
