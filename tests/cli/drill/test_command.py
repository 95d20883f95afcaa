"""``dovetail drill``: whom it chooses, what the planner says without them, how the report counts time."""

from __future__ import annotations

from typing import Any

import pytest

from cli.drill.cluster_state import (
    READ_KINDS,
    ClusterState,
    Target,
    chosen,
    plan_here,
    rehearse,
    report_of,
)
from cli.drill.command import LINE_LIMIT, Selection, _planner, lines_of
from cli.drill.watch import blocked_pod, nodes_of_replacements, waiting
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


def cluster(nodes: list[Any], pods: list[Any], pdbs: list[Any] | None = None) -> ClusterState:
    objects: dict[Any, list[Any]] = {resource: [] for resource in READ_KINDS}
    claims = [
        {
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": f"claim-{n['metadata']['name']}", "uid": n["metadata"]["uid"] + "c"},
            "spec": {}, "status": {"providerID": n["spec"]["providerID"]},
        }
        for n in nodes
    ]  # fmt: skip
    kept = {NODES: nodes, PODS: pods, PDBS: pdbs or [], NODE_POOLS: [POOL], NODE_CLAIMS: claims}
    return ClusterState({**objects, **kept, EC2_NODE_CLASSES: []})


def names(targets: list[Target]) -> list[str]:
    return [target.node.name for target in targets]


def test_only_nodes_of_ours_that_match_are_chosen() -> None:
    """Spot, unless on-demand is asked for; nodes that nobody of us made never."""
    foreign = node("foreign")
    del foreign["metadata"]["labels"][keys.NODE_POOL]
    shown = cluster(
        [node("a"), node("b", "us-east-1b"), node("c", market="on-demand"), foreign], []
    )

    def matching(selection: Selection) -> list[str]:
        return names([t for t in shown.targets() if selection.matches(t)])

    assert matching(Selection("*", "*", 100, 0, False)) == ["a", "b"]
    assert matching(Selection("*", "*", 100, 0, True)) == ["a", "b", "c"]
    assert matching(Selection("us-east-1b", "m5.*", 100, 0, False)) == ["b"]
    assert matching(Selection("*", "c5.*", 100, 0, False)) == []


def test_a_share_is_at_least_one_and_the_same_for_the_same_seed() -> None:
    targets = cluster([node(f"n{i}") for i in range(10)], []).targets()
    assert len(chosen(targets, 30, 7)) == 3
    assert names(chosen(targets, 30, 7)) == names(chosen(targets, 30, 7))
    assert len(chosen(targets, 0.1, 0)) == 1
    assert chosen([], 30, 0) == []


def test_pods_of_lost_nodes_find_places_on_the_others_and_on_new_machines() -> None:
    """Three fit on the node that stays, the others need a machine."""
    pods = [pod(f"p{i}", "a") for i in range(5)] + [pod("stays", "b")]
    shown = cluster([node("a"), node("b")], pods)
    target = [t for t in shown.targets() if t.node.name == "a"]
    report = rehearse(shown, target, plan_here)
    assert report["simulated"]
    assert (report["moved"], report["homeless"], report["stayed"]) == (5, [], [])
    assert report["machines"]
    assert report["nodes"][0]["pods"] == 5
    assert report["spareSeconds"] is None


def test_what_finds_no_place_is_named_with_its_reason() -> None:
    shown = cluster([node("a")], [pod("huge", "a", nodeSelector={"nowhere": "to be found"})])
    report = rehearse(shown, shown.targets(), plan_here)
    assert report["moved"] == 0
    (homeless,) = report["homeless"]
    assert homeless["pod"] == "shop/huge"
    assert homeless["why"]


@pytest.mark.parametrize(("allowed", "blocked"), [(0, ["shop/p0", "shop/p1"]), (1, [])])
def test_budgets_that_block_are_named(allowed: int, blocked: list[str]) -> None:
    """TRM-09: a pod that must not be evicted."""
    shown = cluster([node("a")], [pod("p0", "a"), pod("p1", "a")], [budget(allowed)])
    report = rehearse(shown, shown.targets(), plan_here)
    assert [one["pod"] for one in report["blocked"]] == blocked
    assert all(one["why"].endswith(" web") for one in report["blocked"])
    slow = [{"budget": "shop/web", "allows": 1, "pods": 2}]
    assert report["narrow"] == (slow if allowed else [])


def test_the_slowest_node_says_how_much_time_was_left() -> None:
    targets = cluster([node("a"), node("b")], []).targets()
    rest = {"simulated": False}
    assert report_of(targets, {"a": 5.0, "b": 30.0}, **rest)["spareSeconds"] == 90.0
    late = report_of(targets, {"a": 5.0}, **rest)
    assert late["spareSeconds"] is None
    assert [one["spareSeconds"] for one in late["nodes"]] == [115.0, None]


def test_without_the_scheduler_only_the_bundled_region_can_be_planned() -> None:
    """Another region's types and prices would be a wrong answer."""
    here = cluster([node("a")], []).targets()
    there = cluster([node("a", "eu-central-1a")], []).targets()
    assert _planner({}, here) is plan_here
    with pytest.raises(ConfigurationError, match="DOVETAIL_SCHEDULER_URL"):
        _planner({}, there)
    assert _planner({"DOVETAIL_SCHEDULER_URL": "http://127.0.0.1:9"}, there) is not plan_here


def test_pods_that_wait_are_counted_but_not_those_that_leave() -> None:
    unbound, leaving = pod("p0", ""), pod("p1", "")
    leaving["metadata"]["deletionTimestamp"] = CREATED
    assert waiting([unbound, leaving, pod("p2", "a")]) == 1


def report(**changes: Any) -> dict[str, Any]:
    names = ("stayed", "blocked", "narrow", "homeless", "machines")
    lists: dict[str, Any] = {name: [] for name in names}
    times = {"placedAfterSeconds": None, "spareSeconds": None}
    return {"simulated": False, "moved": 3, **lists, **times, **changes}


def test_a_drill_says_what_happened_and_a_simulation_what_would() -> None:
    done = report(machines=["default-a"], placedAfterSeconds=8.2, spareSeconds=118.7)
    assert lines_of(done) == [
        "pods that moved: 3, that stayed: 0",
        "machines that were bought: 1 (default-a)",
        "all pods have a node again after 8 s",
        "119 s to spare before the two minutes end",
    ]
    homeless = [{"pod": "default/a", "why": "no room"}]
    slow = [{"budget": "web", "allows": 1, "pods": 3}]
    planned = report(simulated=True, homeless=homeless, narrow=slow, machines=["m5.large"])
    assert lines_of(planned) == [
        "pods that would move: 3, without a place: 1",
        "budget web lets 1 of 3 pods go at a time",
        "no place for default/a: no room",
        "machines that would be bought: 1 (m5.large)",
    ]


def test_who_stayed_is_named_but_not_without_end() -> None:
    lines = lines_of(report(stayed=[f"default/p{number}" for number in range(LINE_LIMIT + 5)]))
    assert lines[0] == f"pods that moved: 3, that stayed: {LINE_LIMIT + 5}"
    assert lines[1] == "stayed default/p0"
    assert lines[-2:] == [
        "... and 5 more: -o json has all",
        "the two minutes ended before all nodes were empty",
    ]


@pytest.mark.parametrize(("on_demand", "hint"), [(False, True), (True, False)])
def test_when_nobody_matches_the_question_is_repeated(on_demand: bool, hint: bool) -> None:
    said = Selection("us-west-2x", "m5.*", 100.0, 0, on_demand).no_match()
    assert "zone us-west-2x and type m5.*" in said
    assert ("--on-demand" in said) is hint


def test_what_held_a_pod_is_said_without_the_call_and_with_the_budgets_name() -> None:
    budget = (
        "Failed to drain node, pod default/a stays: create pods/eviction default/a: "
        "Cannot evict pod as it would violate the pod's disruption budget. (429)"
    )
    why = "Cannot evict pod as it would violate the pod's disruption budget."
    assert blocked_pod(budget, {"default/a": ["web"]}) == {
        "pod": "default/a",
        "why": f"{why} (web)",
    }
    assert blocked_pod(budget, {}) == {"pod": "default/a", "why": why}
    annotated = "Failed to drain node, pod default/a stays: it has the annotation x"
    assert blocked_pod(annotated, {"default/a": ["web"]})["why"] == "it has the annotation x"


def test_only_machines_for_pods_that_moved_are_counted() -> None:
    """What an expiry or another workload buys meanwhile is not the drill's."""
    before = [pod("a", "old"), pod("stays", "other")]
    cluster = ClusterState({**{key: [] for key in READ_KINDS}, NODES: [node("old")], PODS: before})
    stranger = pod("b", "bought-for-another")
    stranger["metadata"]["ownerReferences"][0]["uid"] = "another"
    now = [before[1], pod("a2", "bought"), pod("a3", ""), stranger]
    assert nodes_of_replacements(now, before, cluster.targets()) == {"bought"}
