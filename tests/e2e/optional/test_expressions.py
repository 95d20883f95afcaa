"""CEL expressions in a class's kubelet settings, on the local stack: what was planned is what the node has (EC-11)."""

from __future__ import annotations

import pytest

from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import Playground, ShellKubectl
from tests.support.stories.scale_down import Pool, family

pytestmark = [pytest.mark.e2e, NEEDS_KUBECTL]
TWO_CORES = {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["2"]}
KUBELET = {
    "maxPods": "default_enis * 2",
    "kubeReserved": {"cpu": "vcpus * 100", "memory": "11 * max_pods + 255"},
}


async def test_a_node_has_the_pods_and_reservations_of_its_type(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """m5.large has three interfaces: six pods, so that eight small pods take two nodes."""
    pool = Pool(playground, kubectl, "NodePool", "expressed")
    await pool.apply_class()
    await playground.kube.patch(EC2_NODE_CLASSES, "default", {"spec": {"kubelet": KUBELET}})
    await pool.apply([*family("m5"), TWO_CORES], disruption={"consolidateAfter": "Never"})
    await pool.run(8, cpu="10m")
    nodes = await pool.serving(8, nodes=2)
    claims = (await playground.kube.list(NODE_CLAIMS, label_selector=pool.selector)).items
    planned = {one["status"]["capacity"]["pods"] for one in claims}
    assert planned == {node["status"]["capacity"]["pods"] for node in nodes} == {"6"}
    allocatable = {node["status"]["allocatable"]["cpu"] for node in nodes}
    assert allocatable == {one["status"]["allocatable"]["cpu"] for one in claims} == {"1800m"}
