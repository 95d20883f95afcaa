"""A class with CEL expressions in its kubelet settings: the gate, what is said of wrong ones, and the node (EC-11)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from shared.api.conditions import known_conditions
from shared.domain.instance_types.size_settings import USUAL
from shared.domain.instance_types.sizes import sized
from shared.domain.instance_types.types import Catalogue, SizeFacts
from shared.kube.client import Kube
from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS
from tests.services.conftest import Control, create_node_claim, create_node_class
from tests.services.launcher.conftest import Launcher, with_settings
from tests.services.launcher.launch_template.test_controller import created
from tests.support.planning.builders import make_catalogue, make_type

FORMULA = "((default_enis - 1) * (ips_per_eni - 1)) + 2"
KUBELET = {
    "maxPods": FORMULA,
    "kubeReserved": {"cpu": "max(60, vcpus * 45)", "memory": "512Mi"},
    "systemReserved": {"memory": "11 * max_pods"},
}


@pytest.fixture
def catalogue() -> Catalogue:
    """One type as EC2 describes it."""
    facts = SizeFacts(interfaces=3, pod_interfaces=3, addresses_per_interface=10)
    return make_catalogue((sized(make_type("m5.large"), facts, USUAL),))


class Types:
    """A catalogue at hand."""

    def __init__(self, catalogue: Catalogue | None) -> None:
        self.catalogue = catalogue

    async def get(self) -> Catalogue | None:
        return self.catalogue


async def validation(
    kube: Kube, ports: Ports, catalogue: Catalogue | None, kubelet: dict[str, Any], gate: str
) -> tuple[str, str, str]:
    """(status, reason, message) of the class's condition."""
    await create_node_class(kube, kubelet=kubelet)
    wanted = with_settings(ports, aws_feature_gates=f"NodeClassCEL={gate}")
    await NodeClasses(wanted, catalogues=Types(catalogue)).refresh_all()
    status = (await kube.get(EC2_NODE_CLASSES, "default"))["status"]
    found = known_conditions(status)["ValidationSucceeded"]
    ready = known_conditions(status)["Ready"]
    assert ready.status == found.status
    return found.status, found.reason, found.message


async def test_a_class_with_expressions_needs_the_gate(
    kube: Kube, ports: Ports, catalogue: Catalogue
) -> None:
    """Without it its nodes would have other amounts than it asks for."""
    status, reason, message = await validation(kube, ports, catalogue, KUBELET, "false")
    assert (status, reason) == ("False", "KubeletExpressionsDisabled")
    assert "spec.kubelet.kubeReserved[cpu]" in message
    assert "AWS_FEATURE_GATES=NodeClassCEL=true" in message
    assert "512Mi" not in message


@pytest.mark.parametrize(
    ("kubelet", "reason", "words"),
    [
        (
            {"maxPods": "pods"},
            "KubeletExpressionInvalid",
            "spec.kubelet.maxPods: does not know pods",
        ),
        (
            {"kubeReserved": {"cpu": "100mm"}},
            "KubeletExpressionInvalid",
            "spec.kubelet.kubeReserved[cpu]: is no CEL expression",
        ),
        (
            {"maxPods": "vcpus - 3"},
            "KubeletExpressionEvalFailed",
            "spec.kubelet.maxPods: yields -1, which is outside 0 to 2147483647 (m5.large)",
        ),
    ],
)
async def test_a_wrong_expression_makes_the_class_not_ready(
    kube: Kube, ports: Ports, catalogue: Catalogue, kubelet: dict[str, Any], reason: str, words: str
) -> None:
    found = await validation(kube, ports, catalogue, kubelet, "true")
    assert found[:2] == ("False", reason)
    assert words in found[2]


async def test_right_expressions_are_no_fault(
    kube: Kube, ports: Ports, catalogue: Catalogue
) -> None:
    assert (await validation(kube, ports, catalogue, KUBELET, "true"))[0] == "True"


async def test_a_catalogue_that_is_not_read_yet_is_no_fault_of_the_class(
    kube: Kube, ports: Ports
) -> None:
    assert (await validation(kube, ports, None, {"maxPods": "vcpus - 3"}, "true"))[0] == "True"


async def test_a_node_boots_with_what_was_planned_for_its_type(
    kube: Kube, start: Callable[..., Launcher], control: Control, cloud: Any
) -> None:
    await create_node_class(kube, kubelet=KUBELET)
    await create_node_claim(kube)
    launcher = start(aws_feature_gates="NodeClassCEL=true")
    await launcher.launch.launch("NodeClaim/default-c")
    (template,) = await cloud.launch_templates.tagged({"karpenter.k8s.aws/ec2nodeclass": "default"})
    user_data = base64.b64decode(created(control, template.name)["UserData"]).decode()
    for text in ("maxPods: 20", "cpu: 90m", "memory: 224Mi", "memory: 512Mi"):
        assert text in user_data
    assert "vcpus" not in user_data
    claim = await kube.get(NODE_CLAIMS, "default-c")
    assert claim["status"]["capacity"]["pods"] == "20"
    assert claim["status"]["allocatable"]["cpu"] == "1910m"
