"""The node of seed 002, from a Machine to what kubectl shows of its node (ACC-18, ACC-19, ACC-20; IT-46)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace as changed

from shared.api.core.nodes import parse_node
from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import INITIALIZED
from shared.kube.resources import NODES, PROVISIONERS
from tests.services.conftest import CLUSTER, Control, create_machine, create_pool
from tests.services.launcher.conftest import Launcher
from tests.services.launcher.lifecycle_world import World
from tests.support.planning.builders import real_catalogue

NODE = "ip-10-20-10-46.us-west-2.compute.internal"
OF_THE_SEED = {
    "karpenter.k8s.aws/instance-category": "c",
    "karpenter.k8s.aws/instance-cpu": "2",
    "karpenter.k8s.aws/instance-encryption-in-transit-supported": "true",
    "karpenter.k8s.aws/instance-family": "c5a",
    "karpenter.k8s.aws/instance-generation": "5",
    "karpenter.k8s.aws/instance-hypervisor": "nitro",
    "karpenter.k8s.aws/instance-memory": "4096",
    "karpenter.k8s.aws/instance-pods": "29",
    "karpenter.k8s.aws/instance-size": "large",
    "karpenter.sh/capacity-type": "on-demand",
    "karpenter.sh/initialized": "true",
    "karpenter.sh/provisioner-name": "default",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "node.kubernetes.io/instance-type": "c5a.large",
    "topology.kubernetes.io/region": "us-west-2",
}


@pytest.fixture
def catalogue() -> Catalogue:
    """AWS's own c5a.large."""
    found = real_catalogue("us-west-2")
    return changed(found, types=tuple(one for one in found.types if one.name == "c5a.large"))


async def test_the_node_has_the_labels_the_owner_and_the_identity_of_the_seeds(
    world: World, start: Callable[[], Launcher], control: Control
) -> None:
    """IT-46: labels of a c5a.large (IT-45, ACC-18, ACC-19, ACC-20)."""
    await create_pool(world.kube)
    provisioner = await world.kube.get(PROVISIONERS, "default")
    await create_machine(world.kube, "default-a", types=("c5a.large",))
    await start().launch.launch("Machine/default-a")
    machine = await world.machines.get("Machine/default-a")
    await world.join(machine, NODE)
    for _ in range(2):  # registration changes the node, and the change is looked at again
        await world.lifecycle.node_changed(NODE)
    machine = await world.machines.get("Machine/default-a")
    assert machine.has(INITIALIZED)

    raw = await world.kube.get(NODES, NODE)
    labels, (instance,) = raw["metadata"]["labels"], control.instances()
    assert OF_THE_SEED.items() <= labels.items()
    assert labels[keys.ZONE] == instance["zone"]
    assert labels["karpenter.k8s.aws/instance-ami-id"] == instance["imageId"]
    assert raw["metadata"]["annotations"][keys.MANAGED_BY] == CLUSTER
    assert raw["metadata"]["finalizers"] == [keys.FINALIZER]
    (owner,) = raw["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Machine",
        "name": "default-a",
        "uid": machine.uid,
        "blockOwnerDeletion": True,
    }
    assert parse_node(raw).provider_id == machine.provider_id
    assert machine.provider_id == f"aws:///{instance['zone']}/{instance['instanceId']}"
    assert provisioner["metadata"]["name"] == machine.pool
