"""The scheduler is stopped dead before or after any side effect of a command, and a new one takes over (EXE-02..08,
DIS-02, R6).

Around it: a launcher that boots what it finds, a terminator that ends what is deleted, and a watcher that is late now
and then. All the while the pods have an open node or one that is on its way; in the end they have exactly one, which
nobody holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from shared.api.core.nodes import parse_node
from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1alpha5.machines import machine_conditions, parse_machine
from shared.domain import labels as keys
from shared.domain.machines.machine import (
    DISRUPTION_REASON,
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    Machine,
)
from shared.domain.nodes import DISRUPTED, Node
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, NodePool
from shared.domain.workloads.pods import Pod
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES
from shared.metrics import Metrics
from shared.redis.bus import Bus
from tests.services.launcher.mortal import Died, Life, Mortal
from tests.services.scheduler.conftest import SOUND, Scheduler, incarnation
from tests.support.planning.builders import make_node_class, make_pool
from tests.support.planning.disruption import conditions, make_running, pods_on
from tests.support.waiting import wait_until

MOST_TURNS = 40
MOST_MACHINES = 3
YOUNG_SECONDS = 5.0
SIZES = {"old": "m5.x016", "other": "m5.x004", "spare": "m5.x002"}
ROOM = {name: make_running(name, kind).node.allocatable for name, kind in SIZES.items()}
SHAPES = {("replace", V1): 10, ("replace", V1ALPHA5): 7, ("delete", V1): 7, ("empty", V1): 7}
"""One for a cheaper one; two of which one is enough; two of which one is empty. -> side effects of it all."""


def pool_of(generation: str) -> NodePool:
    return make_pool(
        generation_api=generation,
        consolidation_policy=WHEN_UNDERUTILIZED,
        consolidate_after_seconds=0.0,
        expire_seconds=None,
    )


@dataclass
class Cluster:
    """What is stored, and everybody around the scheduler, who act once per turn."""

    scheduler: Scheduler
    kube: Kube
    bus: Bus
    metrics: Metrics
    recorder: Recorder
    pool: NodePool
    chance: Random
    pods: tuple[Pod, ...] = ()
    known: set[tuple[str, str]] = field(default_factory=set)
    """(kind, key) of all that the mirror shows."""
    version: str = ""
    """resourceVersion of the machines that the mirror shows."""
    life: Life = field(default_factory=Life)

    @property
    def resource(self) -> Any:
        return NODE_CLAIMS if self.pool.generation_api == V1 else MACHINES

    def rebirth(self, life: Life) -> None:
        """Another process, which may be mortal too."""
        self.life = life
        kube: Any = Mortal(self.kube, life)
        bus: Any = Mortal(self.bus, life)
        reader = self.scheduler.reader
        self.scheduler.parts = incarnation(kube, bus, reader, self.metrics, self.recorder)

    async def machines(self) -> list[Machine]:
        parse = parse_node_claim if self.pool.generation_api == V1 else parse_machine
        return [parse(raw) for raw in (await self.kube.list(self.resource)).items]

    async def nodes(self) -> list[Node]:
        return [parse_node(raw) for raw in (await self.kube.list(NODES)).items]

    async def add(self, name: str, pods: int) -> None:
        """A running machine with its node and some pods."""
        running = make_running(name, SIZES[name], pool=self.pool)
        generation = self.pool.generation_api
        reference = {"name": "default", "kind": "EC2NodeClass", "group": "karpenter.k8s.aws"}
        old = {
            "name": "default",
            "kind": "AWSNodeTemplate",
            "apiVersion": "karpenter.k8s.aws/v1alpha1",
        }
        spec = {"nodeClassRef": reference} if generation == V1 else {"machineTemplateRef": old}
        body = {
            "kind": GENERATIONS[generation].machine_kind,
            "metadata": {
                "name": running.machine.name,
                "labels": running.machine.labels,
                "finalizers": [keys.FINALIZER],
            },
            "spec": {"requirements": [], **spec},
        }
        await self.kube.create(self.resource, body)
        await self.boot(running.machine, running.node)
        self.pods += pods_on(name, pods, "1500m" if name == "other" else "500m")

    async def boot(self, machine: Machine, node: Node) -> None:
        ready = conditions(LAUNCHED, REGISTERED, INITIALIZED)
        status = {
            "nodeName": node.name,
            "providerID": node.provider_id,
            "conditions": machine_conditions(ready, self.pool.generation_api),
        }
        await self.kube.patch(self.resource, machine.name, {"status": status}, subresource="status")
        metadata = {"name": node.name, "labels": node.labels}
        await self.kube.create(
            NODES, {"metadata": metadata, "spec": {"providerID": node.provider_id}}
        )

    async def surroundings(self) -> None:
        """Instances boot, machines that were deleted end, and their pods move on."""
        machines = await self.machines()
        for machine in machines:
            if machine.terminating:
                await self._end(machine)
            elif not machine.has(INITIALIZED):
                named = f"node-of-{machine.name}"
                running = make_running(named, SIZES["spare"], pool=self.pool)
                await self.boot(machine, running.node)
        if self.chance.random() < 0.7:
            await self.show()

    async def _end(self, machine: Machine) -> None:
        names = [m.node_name for m in await self.machines() if m.has(INITIALIZED)]
        places = [name for name in names if name != machine.node_name]
        assert places or not self.pods, "pods without a place"
        self.pods = tuple(
            replace(pod, node_name=places[0]) if pod.node_name == machine.node_name else pod
            for pod in self.pods
        )
        await self.kube.delete(NODES, machine.node_name)
        gone = {"metadata": {"finalizers": None}}
        await self.kube.patch(self.resource, machine.name, gone)

    async def is_alive(self) -> None:
        """The watcher says that its picture is not old, however long this test runs."""
        position = replace(SOUND[self.resource.plural], version=self.version)
        await self.scheduler.writer.heartbeat({**SOUND, self.resource.plural: position})
        reader, clock = self.scheduler.reader, self.scheduler.disruption.clock
        await wait_until(lambda: reader.age(clock.monotonic()) < YOUNG_SECONDS, "a heartbeat")

    async def show(self) -> None:
        """The watcher catches up."""
        self.version = (await self.kube.list(self.resource)).resource_version
        nodes, machines = await self.nodes(), await self.machines()
        full = [
            replace(node, allocatable=size, capacity=size, ready=True)
            for node in nodes
            for size in [ROOM.get(node.name, ROOM["spare"])]
        ]
        now = {("machines", m.key) for m in machines} | {("nodes", n.name) for n in nodes}
        gone, self.known = self.known - now, now
        await self.scheduler.show_only(gone=gone, machines=machines, nodes=full, pods=self.pods)

    async def check(self) -> None:
        """What must hold at every moment."""
        machines = await self.machines()
        assert len(machines) <= MOST_MACHINES
        stays = [m for m in machines if not m.terminating and m.has(INITIALIZED)]
        assert stays, "the pods' node goes, and there is no other"

    async def is_settled(self) -> bool:
        """The oversized machine is gone, and all pods are on the node of the only one that is left."""
        names = [machine.node_name for machine in await self.machines()]
        return len(names) == 1 and names != ["old"] and {p.node_name for p in self.pods} == {*names}

    async def check_nothing_is_left(self) -> None:
        (machine,), (node,) = await self.machines(), await self.nodes()
        assert keys.COMMAND_ANNOTATION not in machine.annotations
        assert not machine.has(DISRUPTION_REASON)
        assert DISRUPTED not in node.taints
        assert not node.unschedulable


async def play(cluster: Cluster) -> None:
    """One command, whatever happens to who began it."""
    for _ in range(MOST_TURNS):
        await cluster.is_alive()
        try:
            await cluster.scheduler.disruption.step()
        except Died:
            cluster.rebirth(Life())
        await cluster.check()
        await cluster.surroundings()
        if await cluster.is_settled():
            break
    assert await cluster.is_settled(), await cluster.machines()
    await cluster.check_nothing_is_left()


async def clear(cluster: Cluster) -> None:
    for resource in (cluster.resource, NODES):
        for raw in (await cluster.kube.list(resource)).items:
            name = raw["metadata"]["name"]
            await cluster.kube.patch(resource, name, {"metadata": {"finalizers": None}})
            await cluster.kube.delete(resource, name)
    for pod in cluster.pods:
        await cluster.scheduler.hide("pods", pod.key)
    cluster.pods = ()
    await cluster.show()


async def begin(cluster: Cluster, shape: str) -> None:
    pool = cluster.pool
    classes = [make_node_class(generation_api=pool.generation_api)]
    await cluster.scheduler.show_only(nodepools=[pool], nodeclasses=classes)
    await cluster.add("old", 0 if shape == "empty" else 2)
    if shape != "replace":
        await cluster.add("other", 2)
    await cluster.show()


@pytest.fixture
def crash(scheduler: Scheduler, kube: Kube, bus: Bus, metrics: Metrics, recorder: Recorder) -> Any:
    """``await crash(shape, generation, seed, life)``: play it; its side effects."""

    async def run(shape: str, generation: str, seed: int, life: Life) -> list[str]:
        pool = pool_of(generation)
        cluster = Cluster(scheduler, kube, bus, metrics, recorder, pool, Random(seed))
        cluster.rebirth(life)
        await begin(cluster, shape)
        await play(cluster)
        await clear(cluster)
        await scheduler.hide("nodepools", pool.key)
        return life.effects

    return run


async def deaths(crash: Any, seeds: range) -> None:
    for seed in seeds:
        chance = Random(seed)
        shape = list(SHAPES)[seed % len(SHAPES)]
        life = Life(chance.randint(1, SHAPES[shape]), chance.random() < 0.5)
        await crash(*shape, seed, life)
        assert life.dead


async def test_death_leaves_no_taint_no_record_and_no_second_machine(crash: Any) -> None:
    """EXE-02..08: a few moments of death."""
    await deaths(crash, range(4))


@pytest.mark.nightly
@pytest.mark.parametrize("shape", SHAPES)
async def test_every_effect_of_a_command_is_a_moment_of_death(
    crash: Any, shape: tuple[str, str]
) -> None:
    """What the drawn moments are drawn from."""
    effects = await crash(*shape, 0, Life())
    assert {"patch", "delete"} <= set(effects)
    assert len(effects) == SHAPES[shape]


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(100, 200, 20))
async def test_death_at_a_hundred_moments(crash: Any, first: int) -> None:
    await deaths(crash, range(first, first + 20))
