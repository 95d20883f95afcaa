"""Room before pods on a whole stack: a buffer, a batch that asks first, gangs (GAT-02, GAT-04, SCH-114, SCH-115)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.domain.labels import ZONE
from shared.domain.resources import parse_quantity
from shared.kube.resources import CAPACITY_BUFFERS, PROVISIONING_REQUESTS, Resource
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.blueprints import Blueprint, hosts, name_of
from tests.support.stories.playground import NAMESPACE, Playground, ShellKubectl, until

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, NEEDS_KUBECTL]


@pytest.fixture
async def blueprint(playground: Playground, kubectl: ShellKubectl) -> AsyncIterator[Blueprint]:
    """Everything that was applied is deleted at the end, before the stack is looked at."""
    blueprint = Blueprint(playground, kubectl)
    yield blueprint
    await blueprint.delete()


async def has_room(blueprint: Blueprint, resource: Resource, name: str, condition: str) -> bool:
    raw = await blueprint.ground.kube.get(resource, name, NAMESPACE)
    conditions = (raw.get("status") or {}).get("conditions") or []
    return any((c["type"], c["status"]) == (condition, "True") for c in conditions)


async def test_room_is_there_before_the_pods_and_gangs_come_whole(blueprint: Blueprint) -> None:
    """Pods find nodes that are older than they are, and the buffer is filled again beside them. A gang that
    lacks a pod gets no machine; one whose pods exclude each other by host gets three nodes in one zone."""
    await blueprint.apply("pool", "kept-room")

    async def provisioned() -> bool:
        return await has_room(
            blueprint, PROVISIONING_REQUESTS, "batch", "Provisioned"
        ) and await has_room(blueprint, CAPACITY_BUFFERS, "pipeline", "Provisioning")

    await until(provisioned, "there is room for the buffer and the batch")
    before = {name_of(node) for node in await blueprint.nodes()}
    whole = hosts(await blueprint.running("whole", 3))
    of_gang = [node for node in await blueprint.nodes() if name_of(node) in whole]
    assert len(of_gang) == 3
    assert len({node["metadata"]["labels"][ZONE] for node in of_gang}) == 1
    await blueprint.scale("deployment/pipeline", 3)
    pods = await blueprint.running("pipeline", 3)
    assert hosts(pods) <= before
    await until(provisioned, "there is room for as many again")
    waiting = await blueprint.pods("part", "Pending")
    assert [pod["spec"].get("nodeName") for pod in waiting] == [None, None]
    assert not any(cpus(node) >= 60 for node in await blueprint.nodes())
    words = await blueprint.kubectl("get", "capacitybuffers,provisioningrequests")
    assert "FitsExistingCapacity" in words
    await blueprint.kubectl("delete", "capacitybuffer/pipeline", "provisioningrequest/batch")
    await blueprint.scale("deployment/pipeline", 0)
    await blueprint.scale("deployment/whole", 0)
    await blueprint.scale("deployment/part", 0)

    async def gone() -> bool:
        return not await blueprint.nodes()

    await until(gone, "no room is kept any more")


def cpus(node: dict[str, Any]) -> float:
    return float(parse_quantity(node["status"]["capacity"]["cpu"], field="cpu"))
