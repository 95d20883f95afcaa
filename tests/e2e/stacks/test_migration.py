"""Karpenter's nodes are taken over, given back and taken over again, and none of them is replaced (MAP-06)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.demo import workload
from cli.demo.workload import DEPLOYMENTS
from cli.migration.handover import Handover
from cli.migration.inventory import Inventory, read_cluster
from cli.migration.karpenter import carried_out, cloud_of, with_instances
from cli.migration.report import BLOCKS, report_of
from local.probe import request_json
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.kube.lease import read_record
from shared.kube.resources import EC2_NODE_CLASSES, LEASES, NODE_CLAIMS, NODES
from shared.runtime.karpenter_lease import HOLDER
from tests.support.stories.karpenter_world import SYSTEM, KarpenterWorld
from tests.support.stories.playground import (
    Playground,
    playground_on,
    short_settings,
    stack_of,
    until,
)

pytestmark = pytest.mark.e2e
LEASE = "karpenter-leader-election"
POOL = "NodePool/default"


@pytest.fixture
async def playground(tmp_path: Path) -> AsyncIterator[Playground]:
    """A stack whose services share Karpenter's leader election."""
    settings = short_settings(tmp_path / "stack", KARPENTER_LEASE=f"{SYSTEM}/{LEASE}")
    with stack_of(replace(settings, one_process=True)) as stack:
        async with playground_on(stack) as playground:
            yield playground


class Migration:
    """The command's steps on a playground."""

    def __init__(self, playground: Playground, world: KarpenterWorld) -> None:
        self.playground, self.world = playground, world
        self.said: list[str] = []
        self.launched: tuple[str, ...] = ()
        """Ids of Karpenter's instances."""
        self.fixed: frozenset[str] = frozenset()

    async def inventory(self) -> Inventory:
        return await with_instances(await read_cluster(self.playground.kube), self.world.cloud)

    async def step(self, *, pool: bool = False, back: bool = False) -> None:
        inventory = await self.inventory()
        handover = Handover(
            self.playground.kube, SystemClock(), self.said.append, self.world.cloud, wait_seconds=60
        )
        chosen = inventory.pools[0] if pool else None
        await carried_out(handover, inventory, chosen, back=back, cluster=self.world.cluster)

    async def blocks(self) -> list[str]:
        rows = report_of(await self.inventory(), self.world.cluster)
        return [f"{row.object}: {row.text}" for row in rows if row.verdict == BLOCKS]

    async def holder(self) -> str:
        return read_record(await self.playground.kube.get(LEASES, LEASE, SYSTEM)).holder

    async def annotations(self, *names: str) -> list[dict[str, str]]:
        found = [await self.playground.kube.get(NODE_CLAIMS, name) for name in names]
        return [one["metadata"].get("annotations") or {} for one in found]

    async def identities(self) -> dict[str, str]:
        """UIDs of all NodeClaims and of their nodes, by name."""
        claims = (await self.playground.kube.list(NODE_CLAIMS)).items
        names = {one["status"]["nodeName"] for one in claims}
        nodes = [
            n
            for n in (await self.playground.kube.list(NODES)).items
            if n["metadata"]["name"] in names
        ]
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in (*claims, *nodes)}

    async def instances(self) -> dict[str, str]:
        """The states of all instances but the fixed node's, by id."""
        found = await self.playground.emulator.instances()
        return {one.instance_id: one.state for one in found if one.instance_id not in self.fixed}

    def calls(self, action: str) -> int:
        url = f"{self.playground.environment.aws_endpoint_url}/_dovetail/calls?action={action}"
        found: list[Any] = request_json(url)["calls"]
        return len(found)


async def ready_class(playground: Playground) -> bool:
    """The class has all that Karpenter would have found too."""
    await playground.condition(EC2_NODE_CLASSES, "default", "Ready")
    status = (await playground.kube.get(EC2_NODE_CLASSES, "default"))["status"]
    conditions = {one["type"]: one["status"] for one in status["conditions"]}
    return conditions.get("Ready") == "True" and bool(status.get("amis"))


async def test_nodes_of_karpenter_are_taken_over_and_given_back(playground: Playground) -> None:
    kube, cluster = playground.kube, playground.environment.cluster_name
    await workload.apply_pool(kube, cluster, 1, V1, capacity_type="on-demand")
    await until(partial(ready_class, playground), "the class is ready")
    async with cloud_of(playground.stack.running().environment) as cloud:
        assert cloud is not None
        world = KarpenterWorld(kube, cloud, cluster)
        migration = Migration(playground, world)
        migration.fixed = frozenset(await migration.instances())
        await migration.step(back=True)
        await world.install()
        async with world.leading() as lease:
            await asyncio.wait_for(lease.acquired.wait(), 30)
            await story_of_karpenter(migration)
            before = await migration.identities()
            launched, ended = migration.calls("CreateFleet"), migration.calls("TerminateInstances")
            assert await migration.blocks() == []
            await migration.step()
        assert await migration.holder() == HOLDER
        await adopted(migration, before)
        await given_back_and_taken_again(migration, before)
        assert (migration.calls("CreateFleet"), migration.calls("TerminateInstances")) == (launched, ended)  # fmt: skip
        await released(migration)


async def story_of_karpenter(migration: Migration) -> None:
    """Two nodes, one of which Karpenter was about to disrupt, and pods on them."""
    kube, world = migration.playground.kube, migration.world
    names = ("default-aaaaa", "default-bbbbb")
    migration.launched = (await world.make_node(names[0]), await world.make_node(names[1]))
    claim = await kube.get(NODE_CLAIMS, "default-bbbbb")
    taint = {"key": keys.DISRUPTED_TAINT_KEY, "effect": "NoSchedule"}
    await kube.patch(NODES, claim["status"]["nodeName"], {"spec": {"taints": [taint]}})
    document = workload.load_manifest("inflate")
    document["spec"]["replicas"] = 4
    document["spec"]["template"]["spec"]["nodeSelector"] = {keys.NODE_POOL: "default"}
    await migration.playground.create(DEPLOYMENTS, document)
    await until(partial(_runs, migration.playground, 4), "the pods run")


async def _runs(playground: Playground, pods: int) -> bool:
    found = await playground.kube.get(DEPLOYMENTS, "inflate", "default")
    return (found.get("status") or {}).get("readyReplicas") == pods


async def adopted(migration: Migration, before: dict[str, str]) -> None:
    """The claims have Dovetail's hashes, no drift, no taint; nodes and instances are the same."""
    names = migration.world.claims

    async def hashed() -> bool:
        return all(keys.HASHED_BY in one for one in await migration.annotations(*names))

    await until(hashed, "the claims have hashes")
    for name in names:
        claim = await migration.playground.kube.get(NODE_CLAIMS, name)
        assert "Drifted" not in {one["type"] for one in claim["status"]["conditions"]}
        node = await migration.playground.kube.get(NODES, claim["status"]["nodeName"])
        assert keys.DISRUPTED_TAINT_KEY not in {one["key"] for one in node["spec"].get("taints") or ()}  # fmt: skip
    assert await migration.identities() == before
    assert await migration.instances() == dict.fromkeys(migration.launched, "running")


async def given_back_and_taken_again(migration: Migration, before: dict[str, str]) -> None:
    """Karpenter gets no hash that it would call drift, and its replicas back."""
    await migration.step(back=True)
    for one in await migration.annotations(*migration.world.claims):
        assert not {keys.HASHED_BY, keys.POOL_HASH, keys.CLASS_HASH} & one.keys()
    found = await migration.playground.kube.get(DEPLOYMENTS, "karpenter", SYSTEM)
    assert found["spec"]["replicas"] == 2
    async with migration.world.leading() as lease:
        await asyncio.wait_for(lease.acquired.wait(), 30)
        assert await migration.identities() == before
        await migration.step()
    await adopted(migration, before)


async def released(migration: Migration) -> None:
    """A released pool loses its nodes when they are empty: drained, ended, nothing left."""
    kube = migration.playground.kube
    await migration.step(pool=True)
    await kube.patch(DEPLOYMENTS, "inflate", {"spec": {"replicas": 0}}, "default")

    async def gone() -> bool:
        return not (await kube.list(NODE_CLAIMS)).items

    await until(gone, "the claims are gone")
    states = await migration.instances()
    assert {states[one] for one in migration.launched} <= {"shutting-down", "terminated"}
    assert states.keys() == set(migration.launched), states
    await kube.delete(DEPLOYMENTS, "karpenter", SYSTEM)
