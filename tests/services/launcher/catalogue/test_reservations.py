"""Machines whose instance left its capacity reservation (LCH-84)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services.launcher.catalogue.reservations import Reservations
from services.launcher.node_class.controller import NodeClasses
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.kube.resources import NODES
from tests.services.launcher.lifecycle_world import World

RESERVATION = keys.AWS_PREFIX + "capacity-reservation-id"


@pytest.mark.parametrize("reservation", ["", "cr-1"])
async def test_what_left_its_reservation_is_on_demand(
    world: World, monkeypatch: pytest.MonkeyPatch, reservation: str
) -> None:
    """LCH-84: machine and node say so, or consolidation would keep it as if it were free."""
    machine = await world.registered("default-a", V1)
    labels = {"labels": {keys.CAPACITY_TYPE: keys.RESERVED, RESERVATION: "cr-1"}}
    await world.machines.patch(machine, labels)
    await world.kube.patch(NODES, machine.node_name, {"metadata": labels})
    real = world.cloud.ec2.instances

    async def reserved(**asked: Any) -> list[Any]:
        found = await real(**asked)
        return [msgspec.structs.replace(i, capacity_reservation_id=reservation) for i in found]

    monkeypatch.setattr(world.cloud.ec2, "instances", reserved)
    listed = [await world.now(machine)]
    await Reservations(
        world.ports, world.machines, lambda: listed, NodeClasses(world.ports), world.writer
    ).relabel()
    node = (await world.kube.get(NODES, machine.node_name))["metadata"]["labels"]
    for found in ((await world.now(machine)).labels, node):
        expected = (keys.RESERVED, "cr-1") if reservation else (keys.ON_DEMAND, None)
        assert (found[keys.CAPACITY_TYPE], found.get(RESERVATION)) == expected
