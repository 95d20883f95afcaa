"""``dovetail drill``: whom it chooses, what the planner says without them, how the report counts time."""

from __future__ import annotations

from typing import Any

import pytest

from cli.drill import Where, _planner
from cli.drill_picture import READ, Picture, Target, chosen, plan_here, rehearse, report_of
from cli.drill_watch import waiting
from shared.domain import labels as keys
from shared.errors import ConfigurationError
from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES, PDBS, PODS

CREATED = "2026-01-01T00:00:00Z"
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default", "uid": "pool"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [
                    {"key": keys.CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]}
                ],
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default",
                },
            }
        }
    },
}  # fmt: skip


def node(
    name: str, zone: str = "us-east-1a", market: str = "spot", **labels: str
) -> dict[str, Any]:
    size = {"cpu": "4", "memory": "16Gi", "pods": "58"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED,
            "labels": {
                keys.NODE_POOL: "default", keys.ZONE: zone, keys.CAPACITY_TYPE: market,
                keys.INSTANCE_TYPE: "m5.xlarge", keys.REGISTERED: "true", keys.INITIALIZED: "true",
                keys.HOSTNAME: name, **labels,
            },
        },
        "spec": {"providerID": f"aws:///{zone}/i-{name}"},
        "status": {
            "capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip


def pod(name: str, on: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs"}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"uid-{name}", "creationTimestamp": CREATED,
            "labels": {"app": "web"}, "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "nodeName": on,
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def budget(allowed: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "shop", "uid": "pdb"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def picture(nodes: list[Any], pods: list[Any], pdbs: list[Any] | None = None) -> Picture:
    objects: dict[Any, list[Any]] = {resource: [] for resource in READ}
    claims = [
        {
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": f"claim-{n['metadata']['name']}", "uid": n["metadata"]["uid"] + "c"},
            "spec": {}, "status": {"providerID": n["spec"]["providerID"]},
        }
        for n in nodes
    ]  # fmt: skip
    kept = {NODES: nodes, PODS: pods, PDBS: pdbs or [], NODE_POOLS: [POOL], NODE_CLAIMS: claims}
    return Picture({**objects, **kept, EC2_NODE_CLASSES: []})


def names(targets: list[Target]) -> list[str]:
    return [target.node.name for target in targets]


def test_only_nodes_of_ours_that_match_are_chosen() -> None:
    """Spot, unless on-demand is asked for; nodes that nobody of us made never."""
    foreign = node("foreign")
    del foreign["metadata"]["labels"][keys.NODE_POOL]
    shown = picture(
        [node("a"), node("b", "us-east-1b"), node("c", market="on-demand"), foreign], []
    )

    def matching(where: Where) -> list[str]:
        return names([t for t in shown.targets() if where.takes(t)])

    assert matching(Where("*", "*", 100, 0, False)) == ["a", "b"]
    assert matching(Where("*", "*", 100, 0, True)) == ["a", "b", "c"]
    assert matching(Where("us-east-1b", "m5.*", 100, 0, False)) == ["b"]
    assert matching(Where("*", "c5.*", 100, 0, False)) == []


def test_a_share_is_at_least_one_and_the_same_for_the_same_seed() -> None:
    targets = picture([node(f"n{i}") for i in range(10)], []).targets()
    assert len(chosen(targets, 30, 7)) == 3
    assert names(chosen(targets, 30, 7)) == names(chosen(targets, 30, 7))
    assert len(chosen(targets, 0.1, 0)) == 1
    assert chosen([], 30, 0) == []


def test_pods_of_lost_nodes_find_places_on_the_others_and_on_new_machines() -> None:
    """Three fit on the node that stays, the others need a machine."""
    pods = [pod(f"p{i}", "a") for i in range(5)] + [pod("stays", "b")]
    shown = picture([node("a"), node("b")], pods)
    target = [t for t in shown.targets() if t.node.name == "a"]
    report = rehearse(shown, target, plan_here)
    assert report["simulated"]
    assert (report["moved"], report["homeless"], report["stayed"]) == (5, [], [])
    assert report["machines"]
    assert report["nodes"][0]["pods"] == 5
    assert report["spareSeconds"] is None


def test_what_finds_no_place_is_named_with_its_reason() -> None:
    shown = picture([node("a")], [pod("huge", "a", nodeSelector={"nowhere": "to be found"})])
    report = rehearse(shown, shown.targets(), plan_here)
    assert report["moved"] == 0
    (homeless,) = report["homeless"]
    assert homeless["pod"] == "shop/huge"
    assert homeless["why"]


@pytest.mark.parametrize(("allowed", "blocked"), [(0, ["shop/p0", "shop/p1"]), (1, [])])
def test_budgets_that_block_are_named(allowed: int, blocked: list[str]) -> None:
    """TRM-09."""
    shown = picture([node("a")], [pod("p0", "a"), pod("p1", "a")], [budget(allowed)])
    report = rehearse(shown, shown.targets(), plan_here)
    assert [one["pod"] for one in report["blocked"]] == blocked
    assert all(one["why"].endswith(" web") for one in report["blocked"])


def test_the_slowest_node_says_how_much_time_was_left() -> None:
    targets = picture([node("a"), node("b")], []).targets()
    rest = {"simulated": False}
    assert report_of(targets, {"a": 5.0, "b": 30.0}, **rest)["spareSeconds"] == 90.0
    late = report_of(targets, {"a": 5.0}, **rest)
    assert late["spareSeconds"] is None
    assert [one["spareSeconds"] for one in late["nodes"]] == [115.0, None]


def test_without_the_scheduler_only_the_bundled_region_can_be_planned() -> None:
    """Another region's types and prices would be a wrong answer."""
    here = picture([node("a")], []).targets()
    there = picture([node("a", "eu-central-1a")], []).targets()
    assert _planner({}, here) is plan_here
    with pytest.raises(ConfigurationError, match="DOVETAIL_SCHEDULER_URL"):
        _planner({}, there)
    assert _planner({"DOVETAIL_SCHEDULER_URL": "http://127.0.0.1:9"}, there) is not plan_here


def test_pods_that_wait_are_counted_but_not_those_that_leave() -> None:
    unbound, leaving = pod("p0", ""), pod("p1", "")
    leaving["metadata"]["deletionTimestamp"] = CREATED
    assert waiting([unbound, leaving, pod("p2", "a")]) == 1
