"""The workshop's spot flow on a whole stack: ACC-43 to ACC-48."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from cli.demo import workload
from local.probe import request_json
from shared.kube.resources import EVENTS, NODES, PROVISIONERS
from tests.support.stories.playground import TTL_SECONDS, Playground, until

pytestmark = pytest.mark.e2e
MANY_TYPES = 5
"""Of so many instance types EC2 may choose at least."""
SHOWN = (
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "karpenter.sh/provisioner-name",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
)


def inflate_spot() -> dict[str, Any]:
    """ACC-44: the workshop's deployment on spot."""
    document = workload.load_manifest("inflate")
    spec = document["spec"]["template"]["spec"]
    spec["nodeSelector"] = {"intent": "apps", "karpenter.sh/capacity-type": "spot"}
    spec["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "256M"}}
    return document


async def apps_nodes(playground: Playground) -> list[dict[str, Any]]:
    """``kubectl get node --selector=intent=apps``, those that stay."""
    listed = (await playground.kube.list(NODES, label_selector="intent=apps")).items
    return [node for node in listed if not node["metadata"].get("deletionTimestamp")]


async def told(playground: Playground, name: str, reason: str) -> bool:
    """An event about an object of this name has this reason."""
    listed = (await playground.kube.list(EVENTS)).items
    return (name, reason) in {(one["involvedObject"]["name"], one["reason"]) for one in listed}


async def interrupt(playground: Playground, kind: str, node: dict[str, Any]) -> None:
    url = f"{playground.environment.aws_endpoint_url}/_dovetail/interruptions"
    instance = node["spec"]["providerID"].rsplit("/", 1)[-1]
    request_json(url, body={"kind": kind, "instanceId": instance})


def fleets_asked(playground: Playground) -> list[dict[str, Any]]:
    """The parameters of every CreateFleet so far."""
    url = f"{playground.environment.aws_endpoint_url}/_dovetail/calls?action=CreateFleet"
    return [call["parameters"] for call in request_json(url)["calls"]]


def types_of(fleet: dict[str, Any]) -> set[str]:
    """The instance types that a request offers."""
    configs = fleet["LaunchTemplateConfigs"]
    return {one["InstanceType"] for config in configs for one in config["Overrides"]}


async def test_a_spot_workload_is_placed_warned_replaced_and_removed(
    playground: Playground,
) -> None:
    """43: price-capacity-optimized, among many types; 44: the label intent=apps is the Provisioner's; 45: one spot
    node; 48: a recommendation is only an event; 47: a notice deletes the Machine while its replacement is bought
    elsewhere; 46: scaled to zero, the node goes.
    """
    kube = playground.kube
    await workload.apply_pool(kube, playground.environment.cluster_name, TTL_SECONDS)
    await kube.patch(PROVISIONERS, "default", {"spec": {"labels": {"intent": "apps"}}})
    await workload.apply(kube, workload.DEPLOYMENTS, inflate_spot())
    async with playground.one_plan(2):
        await workload.scale(kube, 2)

    async def both_run() -> bool:
        return (await playground.look()).running == 2

    await until(both_run, "both pods run")
    fleet = fleets_asked(playground)[-1]
    assert fleet["SpotOptions"]["AllocationStrategy"] == "price-capacity-optimized"
    assert len(types_of(fleet)) >= MANY_TYPES
    (old,) = await apps_nodes(playground)
    labels, name = old["metadata"]["labels"], old["metadata"]["name"]
    assert [labels[key] for key in SHOWN][-1] == "spot"
    assert all(labels[key] for key in SHOWN)

    await interrupt(playground, "rebalance", old)

    await until(partial(told, playground, name, "SpotRebalanceRecommendation"), "its event")
    assert [node["metadata"]["name"] for node in await apps_nodes(playground)] == [name]

    await interrupt(playground, "spot", old)

    async def replaced() -> bool:
        found = await apps_nodes(playground)
        return (
            await both_run() and bool(found) and all(n["metadata"]["name"] != name for n in found)
        )

    await until(replaced, "the pods run elsewhere")
    for reason in ("SpotInterrupted", "TerminatingOnInterruption"):
        await until(partial(told, playground, name, reason), f"the event {reason}")
    (new,) = await apps_nodes(playground)
    pool = ("node.kubernetes.io/instance-type", "topology.kubernetes.io/zone")
    assert [new["metadata"]["labels"][key] for key in pool] != [labels[key] for key in pool]

    await workload.scale(kube, 0)

    async def gone() -> bool:
        now = await playground.look()
        return not (now.nodes or now.machines or now.live_instances)

    await until(gone, "the node goes")
