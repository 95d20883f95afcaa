"""Pods that move are planned with what they will request then (POD-12)."""

from __future__ import annotations

from typing import Any

from shared.disruption.methods import single_node
from shared.domain.pools.generations import V1
from tests.shared.simulation.documents import (
    answer,
    controller,
    ec2_node_class,
    instance_type,
    node_pool,
    placed,
)
from tests.support.planning.builders import amounts, make_pool
from tests.support.planning.disruption import make_cluster, make_running, make_world, pods_on

EAGER = make_pool(
    generation_api=V1,
    consolidate_after_seconds=0.0,
    consolidation_policy="WhenEmptyOrUnderutilized",
)


def proposed(**changes: Any) -> list[str]:
    """Names of the nodes that consolidation takes away. Only the pod of n2 may move; there are 3 CPUs beside n1's."""
    nodes = [make_running("n1", pool=EAGER), make_running("n2", pool=EAGER)]
    stays = pods_on("n1", 1, cpu="1", do_not_disrupt="true")
    pods = (*stays, *pods_on("n2", 1, **{"cpu": "2", **changes}))
    commands = single_node.propose(make_world(make_cluster(nodes, *pods, pools=(EAGER,)))).commands
    return sorted(name for one in commands for name in (c.node.name for c in one.candidates))


def test_a_pod_that_will_be_larger_is_not_moved_where_only_its_old_size_fits() -> None:
    assert proposed() == ["n2"]
    assert proposed(next_requests=amounts(cpu="3500m")) == []


def test_a_pod_that_will_be_smaller_is_moved_where_its_new_size_fits() -> None:
    large = {"cpu": "3500m"}
    assert proposed(**large) == []
    assert proposed(**large, next_requests=amounts(cpu="2")) == ["n2"]


def test_a_simulation_creates_pods_as_the_autoscaler_would() -> None:
    """The same Deployment, first without and then with a VerticalPodAutoscaler."""
    given = (
        node_pool(), ec2_node_class(), instance_type("m5.large", 2, "8Gi"),
        instance_type("m5.xlarge", 4, "16Gi", offerings=DEARER), controller("Deployment", replicas=1),
    )  # fmt: skip
    assert set(placed(answer(*given)).values()) == {"m5.large"}
    autoscaler = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "status": {
            "recommendation": {
                "containerRecommendations": [{"containerName": "app", "target": {"cpu": "3"}}]
            }
        },
    }
    found = answer(*given, autoscaler)
    assert found["faults"] == []
    assert set(placed(found).values()) == {"m5.xlarge"}


DEARER = [{"zone": "us-west-2a", "capacityType": "on-demand", "price": 0.9}]
