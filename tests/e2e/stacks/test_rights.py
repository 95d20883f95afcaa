"""What deploy/kubernetes gives each service is enough for all that it does, and it has no other rights.

Every stack of these tests runs its services under their own accounts, and ends with a look at what was refused to them.
Here they run as on a real cluster: with Leases, and with every feature gate open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from local.stack import Stack
from local.stack_plan import NAMESPACE as SYSTEM_NAMESPACE
from local.stack_plan import SERVICES
from shared.kube.resources import LEASES, NODE_OVERLAYS
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import (
    Playground,
    ShellKubectl,
    playground_on,
    running_stack,
    until,
)

# Nightly: every end-to-end test ends with a look at what its services were refused; Leases and open gates come on top.
pytestmark = [pytest.mark.e2e, pytest.mark.nightly, NEEDS_KUBECTL]
GATES = (
    "Drift=true,NodeRepair=true,NodeOverlay=true,StaticCapacity=true,ReservedCapacity=true,"
    "SpotToSpotConsolidation=true,CapacityBuffer=true,ProvisioningRequest=true"
)
OVERLAY = {
    "metadata": {"name": "dearer"},
    "spec": {
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
        ],
        "priceAdjustment": "+10%",
    },
}


@pytest.fixture
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of its own: its end tells what was refused."""
    with running_stack(
        tmp_path_factory, FEATURE_GATES=GATES, DISABLE_LEADER_ELECTION="false"
    ) as stack:
        yield stack


@pytest.fixture
async def playground(stack: Stack) -> AsyncIterator[Playground]:
    async with playground_on(stack) as playground:
        yield playground


async def test_with_leases_and_every_gate_open_no_service_lacks_a_right(
    playground: Playground,
) -> None:
    """RBAC-01..RBAC-03: every service works with its own role, and Redis and Kubernetes refuse nothing."""
    kube = playground.kube
    await kube.create(NODE_OVERLAYS, OVERLAY)

    async def judged() -> bool:
        status = (await kube.get(NODE_OVERLAYS, "dearer")).get("status") or {}
        return bool(status.get("conditions"))

    await until(judged, "the overlay is judged")
    report = await playground.play("drift")
    assert report.ok, report.failure
    held = {one["metadata"]["name"] for one in (await kube.list(LEASES, SYSTEM_NAMESPACE)).items}
    assert held == {f"karpenter-leader-election-{name}" for name in ("watcher", "scheduler")}
    for service in SERVICES:
        await assert_no_other_right(playground, service)


async def assert_no_other_right(playground: Playground, service: str) -> None:
    """Asked, not tried: a refusal would be noticed above. With ``--as``: kubectl sends no token over plain HTTP."""
    kubectl = ShellKubectl(playground.stack)
    account = f"--as=system:serviceaccount:{SYSTEM_NAMESPACE}:dovetail-{service}"
    may = await kubectl("auth", "can-i", "list", "secrets", account, check=False)
    assert may.strip() == "no"
    may = await kubectl("auth", "can-i", "create", "events", account, check=False)
    assert may.strip() == "yes"
