"""Machines of other families than Amazon Linux: image, boot data, what a node makes of it (LCH-04..08, LCH-33..39)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from local.cluster.kubelet.user_data import KubeletConfiguration, parse_user_data
from services.launcher.node_class.published_images import GPU_COUNT
from shared.cloud.client.session import Cloud
from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue, SizeFacts
from shared.domain.pools.nodepools import SelectorTerm
from shared.kube.client import Kube
from shared.kube.resources import AWS_NODE_TEMPLATES
from tests.services.conftest import (
    Control,
    create_machine,
    create_node_claim,
    create_node_class,
    create_pool,
)
from tests.services.launcher.conftest import Launcher
from tests.support.planning.builders import make_catalogue, make_type

FACTS = SizeFacts(interfaces=3, pod_interfaces=3, addresses_per_interface=10)
UNREGISTERED = {"key": keys.UNREGISTERED_TAINT_KEY, "effect": "NoExecute"}


@pytest.fixture
def catalogue() -> Catalogue:
    """A plain type and one with a GPU, as EC2 describes them."""
    gpu = make_type("g5.xlarge", 4, 16, 192_000, labels={GPU_COUNT: ("1",)})
    return make_catalogue(tuple(replace(one, facts=FACTS) for one in (make_type("m5.large"), gpu)))


async def started(cloud: Cloud, control: Control) -> tuple[str, KubeletConfiguration]:
    """Name of the image of the one instance, and what its boot data tells a kubelet."""
    (instance,) = control.instances()
    (image,) = await cloud.ec2.images([SelectorTerm(id=instance["imageId"])])
    return image.name, parse_user_data(instance["userData"])


async def test_a_windows_nodeclaim_boots_windows(
    kube: Kube, cloud: Cloud, start: Callable[[], Launcher], control: Control
) -> None:
    """LCH-05, LCH-34, IT-14, and LCH-39: it comes up with its taints, and nobody must add them."""
    await create_node_class(kube, amiSelectorTerms=[{"alias": "windows2022@latest"}])
    taint = {"key": "os", "value": "windows", "effect": "NoSchedule"}
    await create_node_claim(kube, taints=[taint])
    await start().launch.launch("NodeClaim/default-c")
    name, boot = await started(cloud, control)
    assert name.startswith("Windows_Server-2022-English-Core-EKS_Optimized-1.32")
    assert (boot.operating_system, boot.max_pods) == ("windows", 110)
    assert boot.taints == [taint, UNREGISTERED]
    assert boot.labels[keys.DO_NOT_SYNC_TAINTS] == "true"


async def test_a_bottlerocket_machine_with_a_gpu_boots_the_nvidia_image(
    kube: Kube, cloud: Cloud, start: Callable[[], Launcher], control: Control
) -> None:
    """LCH-04, LCH-08, LCH-33 in v1alpha5, where registration adds the taints (LCH-39 is v1's)."""
    await create_pool(kube)
    spec = {
        "amiFamily": "Bottlerocket",
        "userData": "[settings.host-containers.admin]\nenabled = true",
    }
    await kube.patch(AWS_NODE_TEMPLATES, "default", {"spec": spec})
    await create_machine(kube, types=("g5.xlarge",))
    await start().launch.launch("Machine/default-a")
    name, boot = await started(cloud, control)
    assert name.startswith("bottlerocket-aws-k8s-1.32-nvidia-x86_64")
    assert boot.max_pods == 29
    assert boot.taints[-1] == UNREGISTERED
    assert keys.DO_NOT_SYNC_TAINTS not in boot.labels
