"""Capacity blocks and interruptible reservations over the wire: what EC2 takes for them, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.conftest import ControlClient, Network, fleet, instance_ids

POOLS = [("m5.large", "a")]
BLOCK = "capacity-block"
RESERVED = "reserved-capacity"
INTERRUPTIBLE = "interruptible-capacity-reservation"
OPTIONS = {"ReservedCapacityOptions": {"ReservationTypes": [INTERRUPTIBLE]}}


async def template(ec2: Any, name: str, market: str, reservation: str) -> str:
    """A template like the network's, of this market and into this reservation."""
    source = await ec2.describe_launch_template_versions(LaunchTemplateName="nodes", Versions=["1"])
    data = dict(source["LaunchTemplateVersions"][0]["LaunchTemplateData"])
    if market:
        data["InstanceMarketOptions"] = {"MarketType": market}
    if reservation:
        target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
        data["CapacityReservationSpecification"] = target
    await ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
    return name


def asking(network: Any, name: str, target: str, **changes: Any) -> dict[str, Any]:
    request = fleet(network, POOLS)
    for options in ("SpotOptions", "OnDemandOptions"):
        request.pop(options, None)
    request["LaunchTemplateConfigs"][0]["LaunchTemplateSpecification"] = {
        "LaunchTemplateName": name,
        "Version": "$Latest",
    }
    request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] = target
    return {**request, **changes}


def reservation(control: Any, **fields: Any) -> str:
    body = {"instanceType": "m5.large", "zone": "us-west-2a", "count": 2, **fields}
    return str(control.post("reservations", body)["reservationId"])


@pytest.mark.parametrize(
    ("kind", "market", "target", "options"),
    [
        ({"kind": BLOCK}, BLOCK, BLOCK, {}),
        ({"interruptible": True}, INTERRUPTIBLE, RESERVED, OPTIONS),
    ],
)
async def test_each_kind_of_reservation_has_its_own_words(
    ec2: Any,
    network: Network,
    control: ControlClient,
    kind: dict[str, Any],
    market: str,
    target: str,
    options: Any,
) -> None:
    found = reservation(control, **kind)
    request = asking(network, await template(ec2, "one", market, found), target, **options)
    (instance,) = instance_ids(await ec2.create_fleet(**request))
    described = await ec2.describe_instances(InstanceIds=[instance])
    (row,) = described["Reservations"][0]["Instances"]
    assert row["CapacityReservationId"] == found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "market", "target", "options", "code"),
    [
        ({"kind": BLOCK}, BLOCK, "on-demand", {}, "InvalidParameterCombination"),
        ({"kind": BLOCK}, "", BLOCK, {}, "InvalidParameterCombination"),
        ({}, BLOCK, BLOCK, {}, "InvalidParameterCombination"),
        (
            {"kind": BLOCK}, BLOCK, BLOCK,
            {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}},
            "InvalidParameterCombination",
        ),
        ({"interruptible": True}, INTERRUPTIBLE, RESERVED, {}, "InvalidParameterValue"),
        ({"interruptible": True}, "", "on-demand", {}, "InvalidParameterCombination"),
        ({"interruptible": True}, INTERRUPTIBLE, BLOCK, OPTIONS, "InvalidParameterCombination"),
        (None, BLOCK, BLOCK, {}, "MissingParameter"),
        ({}, "", "leftovers", {}, "InvalidParameterValue"),
    ],
)  # fmt: skip
async def test_a_mixture_is_refused(
    ec2: Any,
    network: Network,
    control: ControlClient,
    kind: dict[str, Any] | None,
    market: str,
    target: str,
    options: Any,
    code: str,
) -> None:
    found = "" if kind is None else reservation(control, **kind)
    request = asking(network, await template(ec2, "one", market, found), target, **options)
    with pytest.raises(ClientError) as refused:
        await ec2.create_fleet(**request)
    assert refused.value.response["Error"]["Code"] == code
    assert control.states() == {}
