"""Spot never costs more than on-demand would, and gives way to it quickly (LCH-45, LCH-47, ACC-17)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.launcher.launch.fleet import overrides_of
from shared.api.v1alpha5.machines import parse_machine
from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue
from shared.kube.client import Kube
from shared.kube.resources import MACHINES
from tests.services.conftest import Control, create_machine, create_pool
from tests.services.launcher.conftest import Launcher
from tests.support.planning.builders import make_catalogue, make_type

Start = Callable[[], Launcher]
BOTH = (keys.SPOT, keys.ON_DEMAND)
NAMES = ("m5.large", "m5.24xlarge", "m5.metal")
CAPACITY = {"key": keys.CAPACITY_TYPE, "operator": "In", "values": list(BOTH)}


@pytest.fixture
def catalogue() -> Catalogue:
    """Types that EC2 has, with today's prices in short."""
    return make_catalogue(
        (
            make_type("m5.large", 2, 8, 96_000, capacity_types=BOTH),
            make_type("m5.24xlarge", 96, 384, 4_608_000, capacity_types=BOTH),
            make_type("m5.metal", 96, 384, 100_000, capacity_types=BOTH),
        )
    )


async def launched(start: Start, kube: Kube, name: str) -> tuple[str, str]:
    """Type and capacity type of what a machine gets that may have any; empty without capacity."""
    await create_machine(kube, name, NAMES, requirements=[CAPACITY])
    await start().launch.launch(name)
    found = parse_machine(await kube.get(MACHINES, name))
    return found.instance_type, found.capacity_type


async def test_on_demand_is_bought_when_only_dear_spot_is_left(
    start: Start, kube: Kube, control: Control
) -> None:
    """A small machine on m5.24xlarge spot would cost fourteen times as much; metal would do, but is the last resort."""
    await create_pool(kube)
    control.post("capacity", instanceType="*", zone="*", capacityType="spot", available=0)
    for kind in NAMES[1:]:
        control.post("capacity", instanceType=kind, zone="*", capacityType="spot", available=9)
    await launched(start, kube, "m-a")
    assert await launched(start, kube, "m-b") == ("m5.large", keys.ON_DEMAND)
    requests = [call["parameters"] for call in control.get("calls?action=CreateFleet")["calls"]]
    asked = [{one["InstanceType"] for one in overrides_of(request)} for request in requests]
    assert asked == [{"m5.large"}, {"m5.large", "m5.24xlarge"}]
