"""Nodes of one size for pods of one size: how many are needed is a division."""

from __future__ import annotations

from collections.abc import Callable

from cli.demo import workload
from cli.demo.scenarios import SCENARIOS
from cli.demo.snapshot import Snapshot
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from tests.support.stories.playground import Playground
from tests.support.stories.scale_down import settled

PODS_PER_NODE = 3
"""Pods of one core per node of four cores."""
FOUR_CORES = [
    {"key": keys.CAPACITY_TYPE, "operator": "In", "values": [keys.ON_DEMAND]},
    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["c6i"]},
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]},
]


async def workload_of(ground: Playground, replicas: int, app: str = workload.WORKLOAD) -> None:
    """A pool of nodes of one size, and pods of one size: how many nodes are needed is a division."""
    cluster = ground.environment.cluster_name
    policy = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "2s"}
    changes = {"disruption": policy, "template": {"spec": {"requirements": FOUR_CORES}}}
    await workload.apply_pool(ground.kube, cluster, 2, V1, changes=changes)
    document = workload.deployment(SCENARIOS["node-delete"])
    document["metadata"]["name"] = app
    document["spec"] |= {"replicas": replicas, "selector": {"matchLabels": {"app": app}}}
    document["spec"]["template"]["metadata"]["labels"] = {"app": app}
    pod = document["spec"]["template"]["spec"]
    pod["nodeSelector"] = {keys.CAPACITY_TYPE: keys.ON_DEMAND}
    await workload.apply(ground.kube, workload.DEPLOYMENTS, document)


def calm(count: int) -> Callable[[Snapshot], bool]:
    """Wait until this many pods run and every node has at least one."""

    def reached(now: Snapshot) -> bool:
        return settled(count)(now) and all(node.pods for node in now.nodes)

    return reached


def room(now: Snapshot) -> int:
    """The number of further pods that fit on the nodes."""
    return sum(PODS_PER_NODE - node.pods for node in now.nodes)
