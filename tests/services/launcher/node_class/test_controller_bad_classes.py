"""Bad input on a node class: condition and event name it, and other classes go on (EC-16, EC-17, EC-12, F27).

One class for each mistake, all on one cluster beside one that is good, in both generations.
"""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from shared.api.conditions import known_conditions
from shared.errors import InvalidObject
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import AWS_NODE_TEMPLATES, EC2_NODE_CLASSES, EVENTS, Resource
from tests.services.conftest import CLUSTER, create_node_class
from tests.support.aws.emulator import make_snapshot

MANY_TAGS = {f"team-{number}": "web" for number in range(45)}
"""The schema takes them; with Dovetail's own they are more than EC2's 50."""
TOO_LARGE = "#!/bin/bash\n# " + "x" * 16_350
"""The schema takes it; with what starts the kubelet it is over EC2's 16 KiB."""
DISCOVERY = {"karpenter.sh/discovery": CLUSTER}
SNAPSHOT_GIB = 40


@pytest.fixture
def node_classes(ports: Ports) -> NodeClasses:
    return NodeClasses(ports)


def volumes(snapshot: str) -> list[dict[str, Any]]:
    """10 GiB less than the snapshot needs."""
    return [
        {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "30Gi", "snapshotID": snapshot}},
    ]


def v1_mistakes(snapshot: str) -> dict[str, tuple[dict[str, Any], str]]:
    """Name -> (fields of the class, what its condition must name)."""
    nothing = [{"id": "subnet-00000000"}]
    return {
        "role": ({"role": "Nobody"}, "role Nobody"),
        "image": ({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-0"}]}, "ami-0"),
        "subnet": ({"subnetSelectorTerms": nothing}, "subnet-00000000"),
        "group": ({"securityGroupSelectorTerms": [{"id": "sg-00000000"}]}, "sg-00000000"),
        "user-data": ({"userData": TOO_LARGE}, "spec.userData"),
        "tags": ({"tags": MANY_TAGS}, "spec.tags: 45 tags"),
        "snapshot": ({"blockDeviceMappings": volumes(snapshot)}, snapshot),
    }


def old_mistakes(snapshot: str) -> dict[str, tuple[dict[str, Any], str]]:
    """The same for AWSNodeTemplates, which name a profile instead of a role."""
    return {
        "profile": ({"instanceProfile": "Nobody"}, "Nobody"),
        "image": ({"amiSelector": {"aws-ids": "ami-00000000"}}, "ami-00000000"),
        "subnet": ({"subnetSelector": {"aws-ids": "subnet-00000000"}}, "subnet-00000000"),
        "group": ({"securityGroupSelector": {"aws-ids": "sg-00000000"}}, "sg-00000000"),
        "user-data": ({"userData": TOO_LARGE}, "spec.userData"),
        "tags": ({"tags": MANY_TAGS}, "spec.tags: 45 tags"),
        "snapshot": ({"blockDeviceMappings": volumes(snapshot)}, snapshot),
    }


async def create_template(kube: Kube, name: str, **spec: Any) -> None:
    selectors = {"subnetSelector": DISCOVERY, "securityGroupSelector": DISCOVERY}
    profile = {"instanceProfile": f"KarpenterNodeInstanceProfile-{CLUSTER}"}
    body = {"metadata": {"name": name}, "spec": {**selectors, **profile, **spec}}
    await kube.create(AWS_NODE_TEMPLATES, body)


async def readiness(kube: Kube, kind: Resource, name: str) -> tuple[str, str]:
    """(status, message) of the condition Ready."""
    ready = known_conditions((await kube.get(kind, name))["status"])["Ready"]
    return ready.status, ready.message


async def told(kube: Kube, recorder: Recorder, events: Any) -> dict[str, str]:
    """Class name -> the text of its warning."""
    await events()
    listed = (await kube.list(EVENTS)).items
    warnings = (one for one in listed if one["reason"] == "NodeClassNotReady")
    return {one["involvedObject"]["name"]: one["message"] for one in warnings}


@pytest.mark.parametrize("generation", ["v1", "v1alpha5"])
async def test_condition_and_event_name_the_mistake_and_the_good_class_goes_on(
    kube: Kube, node_classes: NodeClasses, recorder: Recorder, aws_emulator_url: str, events: Any,
    generation: str,
) -> None:  # fmt: skip
    """EC-16, EC-17, F27: role, image, subnet, group, user data, tags, snapshot."""
    snapshot = await make_snapshot(aws_emulator_url, SNAPSHOT_GIB)
    is_new = generation == "v1"
    kind = EC2_NODE_CLASSES if is_new else AWS_NODE_TEMPLATES
    create = create_node_class if is_new else create_template
    mistakes = v1_mistakes(snapshot) if is_new else old_mistakes(snapshot)
    for name, (spec, _) in mistakes.items():
        await create(kube, name, **spec)
    await create(kube, "z-good")
    await node_classes.refresh_all()
    warnings = await told(kube, recorder, events)
    for name, (_, named) in mistakes.items():
        status, message = await readiness(kube, kind, name)
        assert (name, status) == (name, "False")
        assert named in message
        assert named in warnings[name]
        with pytest.raises(InvalidObject):
            await node_classes.resolve(f"{kind.kind}/{name}")
    assert await readiness(kube, kind, "z-good") == ("True", "")
    assert "z-good" not in warnings
    assert (await node_classes.resolve(f"{kind.kind}/z-good")).subnets
