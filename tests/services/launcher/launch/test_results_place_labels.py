"""What a NodeClaim says of the place where its instance runs (IT-40, IT-41, IT-44)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from services.launcher.launch_template.content import TENANCY
from services.launcher.service import Launcher
from shared.api.v1alpha5.machines import parse_machine
from shared.domain import labels as keys
from shared.domain.instance_types.shortages import MOST_SPREAD
from shared.domain.instance_types.types import Catalogue
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import NODE_CLAIMS
from tests.services.conftest import (
    Control,
    create_node_claim,
    create_node_class,
    create_node_pool,
    written_events,
)
from tests.support.aws.emulator import make_placement_group
from tests.support.planning.builders import ZONES, make_catalogue, make_type

Start = Callable[..., Launcher]


@pytest.fixture
def catalogue() -> Catalogue:
    adapters: dict[str, Any] = {"vpc.amazonaws.com/efa": 4}
    labels: dict[str, tuple[str, ...]] = {TENANCY: ("dedicated", "default")}
    return make_catalogue((make_type(labels=labels, **adapters),))


async def launched(start: Start, kube: Kube, *requirements: dict[str, Any], **spec: Any) -> Any:
    """The claim, with its instance."""
    await create_node_pool(kube)
    own = {"key": keys.INSTANCE_TYPE, "operator": "In", "values": [make_type().name]}
    await create_node_claim(kube, "a", requirements=[own, *requirements], **spec)
    await start().launch.launch("NodeClaim/a")
    return parse_machine(await kube.get(NODE_CLAIMS, "a"))


async def test_a_claim_is_launched_into_the_partition_that_it_was_planned_for(
    start: Start, kube: Kube, control: Control, aws_emulator_url: str
) -> None:
    """EC-06, IT-44: from EC2's group to the template and the claim."""
    await make_placement_group(aws_emulator_url, "racks", "partition", 3)
    await create_node_class(kube, placementGroupSelector={"name": "racks"})
    partition = {"key": keys.PARTITION, "operator": "In", "values": ["2"]}
    machine = await launched(start, kube, partition)
    (call,) = control.get("calls?action=CreateLaunchTemplate")["calls"]
    placement = call["parameters"]["LaunchTemplateData"]["Placement"]
    assert placement == {"GroupName": "racks", "PartitionNumber": 2}
    assert machine.labels[keys.PLACEMENT_GROUP].startswith("pg-")
    assert machine.labels[keys.PARTITION] == "2"


async def test_a_zone_in_which_a_spread_group_is_full_is_not_asked_for(
    start: Start, kube: Kube, control: Control, aws_emulator_url: str
) -> None:
    """EC-06: EC2 takes seven instances of such a group in each zone."""
    group = await make_placement_group(aws_emulator_url, "apart", "spread")
    await create_node_class(kube, placementGroupSelector={"name": "apart"})
    for number in range(MOST_SPREAD):
        name = f"there-{number}"
        await create_node_claim(kube, name)
        labels = {keys.ZONE: ZONES[0], keys.PLACEMENT_GROUP: group}
        await kube.patch(NODE_CLAIMS, name, {"metadata": {"labels": labels}})
    machine = await launched(start, kube)
    (call,) = control.get("calls?action=CreateFleet")["calls"]
    (template,) = call["parameters"]["LaunchTemplateConfigs"]
    asked = {one["AvailabilityZone"] for one in template["Overrides"]}
    assert asked == set(ZONES[1:])
    assert machine.labels[keys.PLACEMENT_GROUP] == group


@pytest.mark.parametrize(("asked", "count"), [({}, None), ({"vpc.amazonaws.com/efa": "1"}, 4)])
async def test_a_claim_has_adapters_only_where_they_were_asked_for(
    start: Start, kube: Kube, control: Control, asked: dict[str, str], count: int | None
) -> None:
    """IT-18: an instance gets those interfaces at its launch, or never."""
    await create_node_class(kube)
    resources = {"requests": {"cpu": "500m", "pods": "2", **asked}}
    machine = await launched(start, kube, resources=resources)
    assert machine.capacity.get("vpc.amazonaws.com/efa") == count


@pytest.mark.parametrize("asked", ["", "dedicated"])
async def test_a_claim_names_its_zone_id_and_its_tenancy(
    start: Start, kube: Kube, control: Control, asked: str
) -> None:
    """Pods may select by them, and kube-scheduler looks at the node's labels only."""
    await create_node_class(kube)
    rule = [{"key": TENANCY, "operator": "In", "values": [asked]}] if asked else []
    machine = await launched(start, kube, *rule)
    assert machine.labels[TENANCY] == (asked or "default")
    assert machine.labels[keys.ZONE_ID].startswith("usw2-az")
    assert machine.annotations[keys.AUTHORITY_ANNOTATION], "EC-22: it drifts when there is another"


async def test_a_launch_says_what_was_bought_and_by_which_decision(
    start: Start, kube: Kube, recorder: Recorder
) -> None:
    await create_node_class(kube)
    await create_node_pool(kube)
    await create_node_claim(kube, "a", (make_type().name,))
    await kube.patch(NODE_CLAIMS, "a", {"metadata": {"annotations": {keys.PLAN_ANNOTATION: "p-1"}}})
    await start().launch.launch("NodeClaim/a")
    (told,) = await written_events(kube, recorder)
    assert (told["type"], told["reason"]) == ("Normal", "Launched")
    bought = re.fullmatch(
        r"m5.large in us-west-2[a-c], on-demand, \$0\.0\d{3} an hour; why: dovetail explain decision p-1",
        told["message"],
    )
    assert bought, told["message"]


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("static/0-1", "one of the replicas of NodePool/default"),
        ("kept/0-1", "for the minimum and headroom of NodePool/default"),
    ],
)
async def test_a_launch_that_no_recorded_decision_asked_for_says_what_it_is_for(
    start: Start, kube: Kube, recorder: Recorder, plan: str, why: str
) -> None:
    await create_node_class(kube)
    await create_node_pool(kube)
    await create_node_claim(kube, "a", (make_type().name,))
    await kube.patch(NODE_CLAIMS, "a", {"metadata": {"annotations": {keys.PLAN_ANNOTATION: plan}}})
    await start().launch.launch("NodeClaim/a")
    (told,) = await written_events(kube, recorder)
    assert told["message"].endswith(f" an hour; why: {why}")
