"""Nodes with less than their machine was promised (LCH-82)."""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher.lifecycle.nodes import Consistency, shortfalls
from shared.domain.machines.machine import CONSISTENT, INITIALIZED, Condition
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.resources import NODES
from tests.services.launcher.lifecycle_world import World
from tests.support.planning.builders import amounts, make_machine, make_node

PROMISED = amounts(cpu="4", memory="16Gi", pods="58")


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (PROMISED, []),
        (amounts(cpu="3600m", memory="16Gi"), []),
        (
            amounts(cpu="4", memory="8Gi"),
            ["expected 16Gi of resource memory, but found 8Gi (50.0% of expected)"],
        ),
        (amounts(memory="16Gi"), ["expected 4 of resource cpu, but found 0 (0.0% of expected)"]),
    ],
)
def test_a_requested_resource_must_be_there_to_nine_tenths(
    actual: dict[str, int], expected: list[str]
) -> None:
    """LCH-82: pods is not requested here, and a resource that nobody promised is nobody's lie."""
    requests = {"cpu": 100, "memory": 1, "nvidia.com/gpu": 1}
    machine = make_machine(requests=requests, capacity=PROMISED)
    assert shortfalls(machine, make_node(capacity=actual)) == expected


@pytest.mark.parametrize("generation_api", [V1ALPHA5, V1])
async def test_a_shortfall_is_told_and_nothing_is_done(
    world: World, events: Any, generation_api: str
) -> None:
    """LCH-82: condition (v1), event, log and metric; when it is mended the condition says that too."""
    checks = Consistency(world.ports, world.machines, world.writer)
    machine = await world.launched(
        "default-a", generation_api, "aws:///us-west-2a/i-0123456789abcdef0"
    )
    done = Condition("True", INITIALIZED, "", world.clock.now())
    status = {"capacity": {"cpu": "4", "pods": "29"}}
    await world.machines.write_condition(machine, INITIALIZED, done, status)
    await world.join(machine)
    await checks.check_all()
    found = (await world.now(machine)).conditions.get(CONSISTENT)
    text = "expected 4 of resource cpu, but found 2 (50.0% of expected)"
    if generation_api == V1:
        assert found is not None
        assert (found.status, found.reason, found.message) == (
            "False",
            "ConsistencyCheckFailed",
            text,
        )
    else:
        assert found is None
    assert ("FailedConsistencyCheck", "default-a") in await events()
    assert world.metrics.consistency_errors.labels("node_shape")._value.get() == 1
    assert not await world.is_leaving(machine)
    capacity = {"status": {"capacity": {"cpu": "4"}}}
    await world.kube.patch(NODES, "node-default-a", capacity, subresource="status")
    await checks.check_all()
    assert (await world.now(machine)).has(CONSISTENT) == (generation_api == V1)
