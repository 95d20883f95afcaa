"""The condition Drifted on the API server (DRF-01, DRF-08, ACC-79)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from services.launcher.drift.controller import PERIOD_SECONDS, DriftController
from services.launcher.machine_writer import MachineWriter
from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from shared.api.hashes import class_hash_annotations, pool_hash_annotations
from shared.cloud.client.session import Cloud
from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import DRIFTED
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import Unavailable
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.pools import readable_pools
from shared.kube.resources import (
    EC2_NODE_CLASSES,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    PROVISIONERS,
    Resource,
)
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from tests.services.conftest import (
    create_machine,
    create_node_claim,
    create_node_class,
    create_node_pool,
    create_pool,
)
from tests.services.launcher.conftest import Launcher, with_settings
from tests.support.aws.emulator import make_placement_group
from tests.support.clock.fake import FakeClock


@pytest.fixture
def controller(ports: Ports, catalogue: Catalogue) -> DriftController:
    """As the service puts them together."""
    of = with_settings(ports, disable_dry_run=True, feature_gates="Drift=true")
    machines, store = Machines(of.kube), CatalogueStore(of.bus.redis, of.bus.prefix)
    writer = MachineWriter(of, machines)
    return DriftController(of, machines, NodeClasses(of), store, writer)


async def hashed(kube: Kube, controller: DriftController, resource: Resource, name: str) -> None:
    """As the scheduler makes machines: with the hashes of today (NC-07)."""
    pool_kind = "NodePool" if resource is NODE_CLAIMS else "Provisioner"
    pool = (await readable_pools(kube))[f"{pool_kind}/default"]
    node_class = (await controller.node_classes.readable())[pool.node_class_key]
    annotations = {
        **pool_hash_annotations(pool.kind, pool.hash),
        **class_hash_annotations(node_class.kind, node_class.hash),
    }
    await kube.patch(resource, name, {"metadata": {"annotations": annotations}})


async def reason(controller: DriftController, key: str) -> str | None:
    """Why it is marked; None for no condition at all."""
    found = (await controller.machines.get(key)).conditions.get(DRIFTED)
    assert found is None or found.status == "True"
    return found.reason if found else None


async def version(kube: Kube, name: str) -> str:
    return str((await kube.get(NODE_CLAIMS, name))["metadata"]["resourceVersion"])


async def edit_pool(kube: Kube, **spec: Any) -> None:
    await kube.patch(NODE_POOLS, "default", {"spec": spec})


@pytest.mark.slow
async def test_a_node_claim_is_marked_while_it_differs(
    kube: Kube,
    cloud: Cloud,
    clock: FakeClock,
    start: Callable[..., Launcher],
    controller: DriftController,
) -> None:
    """ACC-79: a label of the template, limits, a new image. Each change is written once."""
    await create_node_class(kube, amiFamily="AL2023")
    await create_node_pool(kube)
    await create_node_claim(kube, "a")
    await hashed(kube, controller, NODE_CLAIMS, "a")
    await start().launch.launch("NodeClaim/a")
    before = await version(kube, "a")
    await controller.check()
    await edit_pool(kube, limits={"cpu": "9"}, weight=3)
    controller.changed("NodePool/default")
    await controller.check()
    assert await version(kube, "a") == before  # what a launch makes is not outdated

    await edit_pool(kube, template={"metadata": {"labels": {"team": "b"}}})
    controller.changed("NodePool/another")
    await controller.check()
    assert await reason(controller, "NodeClaim/a") is None
    controller.changed("NodePool/default")
    await controller.check()
    assert await reason(controller, "NodeClaim/a") == "NodePoolDrifted"
    assert (await kube.get(NODE_CLAIMS, "a"))["status"]["conditions"]
    marked = await version(kube, "a")
    clock.advance(PERIOD_SECONDS + 1)
    await controller.check()
    assert await version(kube, "a") == marked
    assert (
        controller.ports.metrics.machines_drifted.labels("NodePoolDrifted", "default")._value.get()
        == 1
    )
    await edit_pool(kube, template={"metadata": {"labels": {"team": None}}})
    clock.advance(PERIOD_SECONDS + 1)
    await controller.check()
    assert await reason(controller, "NodeClaim/a") is None

    images = await cloud.ec2.images([SelectorTerm(name="*", owner="amazon")])
    held = (await controller.machines.get("NodeClaim/a")).image_id
    other = next(i.id for i in images if i.architecture == "x86_64" and i.id != held)
    await kube.patch(EC2_NODE_CLASSES, "default", {"spec": {"amiSelectorTerms": [{"id": other}]}})
    clock.advance(PERIOD_SECONDS + 1)
    await controller.check()
    assert await reason(controller, "NodeClaim/a") == "AMIDrift"


@pytest.mark.slow
async def test_what_cannot_be_read_leaves_the_condition_as_it_is(
    kube: Kube,
    cloud: Cloud,
    clock: FakeClock,
    start: Callable[..., Launcher],
    controller: DriftController,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F23: EC2 does not answer, answers nothing, the class selects nothing, the pool is unreadable or gone."""
    await create_node_class(kube)
    await create_node_pool(kube)
    await create_node_claim(kube, "a")
    await hashed(kube, controller, NODE_CLAIMS, "a")
    await start().launch.launch("NodeClaim/a")
    before = await version(kube, "a")

    async def look() -> None:
        clock.advance(PERIOD_SECONDS + 1)
        await controller.check()
        assert await version(kube, "a") == before

    async def fails(**_: Any) -> list[Any]:
        raise Unavailable("down")

    async def nothing(**_: Any) -> list[Any]:
        return []

    for answer in (fails, nothing):
        with monkeypatch.context() as patched:
            patched.setattr(cloud.ec2, "instances", answer)
            await look()
    no_subnet = {"spec": {"subnetSelectorTerms": [{"tags": {"no": "such"}}]}}
    await kube.patch(EC2_NODE_CLASSES, "default", no_subnet)
    await look()
    await kube.patch(NODE_POOLS, "default", {"spec": {"template": {"spec": {"expireAfter": "1h"}}}})
    with monkeypatch.context() as patched:
        patched.setattr(type(kube), "list", _without(NODE_POOLS, type(kube).list))
        await look()
    await kube.delete(NODE_POOLS, "default")
    await look()


def _without(hidden: Resource, real: Any) -> Any:
    """An API server whose list of one kind is empty."""

    async def listed(self: Kube, resource: Resource, *args: Any, **options: Any) -> Any:
        found = await real(self, resource, *args, **options)
        if resource == hidden:
            found.items.clear()
        return found

    return listed


@pytest.mark.slow
@pytest.mark.parametrize("gate", [True, False])
async def test_machines_of_provisioners_drift_where_the_gate_is_open(
    kube: Kube,
    start: Callable[..., Launcher],
    controller: DriftController,
    clock: FakeClock,
    gate: bool,
) -> None:
    """DRF-08: a closed gate takes the mark off."""
    await create_pool(kube)
    await create_machine(kube, "a")
    await hashed(kube, controller, MACHINES, "a")
    await start().launch.launch("Machine/a")
    await kube.patch(PROVISIONERS, "default", {"spec": {"labels": {"team": "b"}}})
    await controller.check()
    assert await reason(controller, "Machine/a") == "ProvisionerDrifted"
    changed = {"disable_dry_run": True, "feature_gates": f"Drift={str(gate).lower()}"}
    controller.ports = with_settings(controller.ports, **changed)
    clock.advance(PERIOD_SECONDS + 1)
    await controller.check()
    assert await reason(controller, "Machine/a") == ("ProvisionerDrifted" if gate else None)
    stored = {c["type"] for c in (await kube.get(MACHINES, "a"))["status"]["conditions"]}
    assert ("MachineDrifted" in stored) == gate
    assert keys.PROVISIONER_HASH in (await controller.machines.get("Machine/a")).annotations


@pytest.mark.slow
async def test_a_machine_belongs_into_the_placement_group_of_its_class(
    kube: Kube,
    clock: FakeClock,
    start: Callable[..., Launcher],
    controller: DriftController,
    aws_emulator_url: str,
) -> None:
    """DRF-03, EC-06: what was launched into the group is in it; a class without one has other machines."""
    await make_placement_group(aws_emulator_url, "rack", "cluster")
    await create_node_class(kube, placementGroupSelector={"name": "rack"})
    await create_node_pool(kube)
    await create_node_claim(kube, "a")
    await hashed(kube, controller, NODE_CLAIMS, "a")
    await start().launch.launch("NodeClaim/a")
    await controller.check()
    assert await reason(controller, "NodeClaim/a") is None
    await kube.patch(EC2_NODE_CLASSES, "default", {"spec": {"placementGroupSelector": None}})
    clock.advance(PERIOD_SECONDS + 1)
    await controller.check()
    assert await reason(controller, "NodeClaim/a") == "PlacementGroupDrift"
