"""F1: the launcher is stopped dead before and after each side effect, and a new one takes over.

Every case is one moment of death in the launch of 1, 7 or 50 machines while EC2 does one of five things. Afterwards:
no machine has two live instances, no instance is without a machine once 120 s are over, no machine is forgotten.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from services.launcher.assembly import assemble
from services.launcher.garbage import Garbage
from services.launcher.health import PoolHealth
from services.launcher.launch import Launch
from services.launcher.node_classes import NodeClasses
from services.launcher.template_store import TemplateStore
from services.launcher.templates import Templates
from services.launcher.writing import Writer
from shared.bus import Bus, RetryLater
from shared.cloud.session import Cloud
from shared.domain.instance_types import Catalogue, encode_catalogue
from shared.domain.machines import Machine
from shared.domain.nodes import provider_instance_id
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.kube.resources import LAUNCH_RECORDS, MACHINES, NODE_CLAIMS
from shared.metrics import Metrics
from shared.mirror.launch_backoff import LaunchBackoff
from shared.mirror.offerings import CatalogueStore, UnavailableOfferings
from shared.mirror.registrations import RegistrationOutcomes
from shared.mirror.template_use import TemplateUse
from shared.settings import LauncherSettings, read
from tests.services.conftest import (
    CLUSTER,
    Control,
    create_machine,
    create_node_claim,
    create_node_class,
    create_node_pool,
    create_pool,
)
from tests.services.launcher.mortal import Died, Life, Mortal
from tests.support.fake_clock import FakeClock

ROUNDS = 12
"""Looks after which nothing may be left to do."""
OUTCOMES: dict[str, Callable[[Control, int], None]] = {
    "ok": lambda control, number: None,
    "partial": lambda control, number: control.post("fleets", give=number // 2),
    "no capacity": lambda control, number: control.post("fleets", give=0),
    "answer lost": lambda control, number: control.post(
        "faults", action="CreateFleet", status=0, mode="after"
    ),
    "server error": lambda control, number: control.post(
        "faults", action="CreateFleet", status=500, mode="before"
    ),
}
SAMPLES = {1: 8, 7: 4, 50: 1}
"""Batch -> moments of death per change."""
CHEAP = [(batch, outcome) for batch in (1, 7) for outcome in OUTCOMES]
PER_CHANGE = [*CHEAP, (50, "ok"), (50, "answer lost")]
NIGHTLY_SAMPLES = {1: 1000, 7: 50, 50: 70}
_numbers = itertools.count()


@dataclass
class World:
    """One API server, EC2 and Redis for many cases; what AWS has for the class is looked up once."""

    kube: Kube
    cloud: Cloud
    bus: Bus
    clock: FakeClock
    metrics: Metrics
    recorder: Recorder
    control: Control
    node_classes: NodeClasses
    templates: Templates
    settings: LauncherSettings

    def incarnation(self, life: Life) -> Launch:
        """A new launcher that remembers nothing."""
        kube: Any = Mortal(self.kube, life)
        cloud: Any = Mortal(self.cloud, life, ec2=Mortal(self.cloud.ec2, life))
        bus: Any = Mortal(self.bus, life)
        unavailable: Any = Mortal(self.unavailable, life)
        machines = Machines(kube)

        async def sleep(seconds: float) -> None:
            self.clock.advance(seconds)

        return assemble(
            kube=kube,
            machines=machines,
            cloud=cloud,
            clock=self.clock,
            settings=self.settings,
            metrics=self.metrics,
            node_classes=self.node_classes,
            templates=self.templates,
            catalogues=CatalogueStore(self.bus.redis, self.bus.prefix),
            unavailable=unavailable,
            backoff=self.backoff,
            writer=Writer(machines, bus, self.clock, self.recorder),
            sleep=sleep,
        )

    def garbage(self) -> Garbage:
        """A new sweep."""
        machines = Machines(self.kube)
        health = PoolHealth(RegistrationOutcomes(self.bus.redis, self.bus.prefix), self.backoff)
        writer = Writer(machines, self.bus, self.clock, self.recorder)
        return Garbage(
            self.kube, machines, self.cloud, self.clock, self.settings, writer, self.metrics, health
        )

    @property
    def unavailable(self) -> UnavailableOfferings:
        return UnavailableOfferings(self.bus.redis, self.bus.prefix, self.clock)

    @property
    def backoff(self) -> LaunchBackoff:
        return LaunchBackoff(self.bus.redis, self.bus.prefix, self.clock)

    async def machines(self, keys: Sequence[str]) -> list[Machine]:
        """Those of these that are there."""
        wanted = set(keys)
        return [one for one in await Machines(self.kube).list() if one.key in wanted]

    async def records(self) -> list[dict[str, Any]]:
        return (await self.kube.list(LAUNCH_RECORDS)).items

    async def clean(self, keys: Sequence[str]) -> None:
        """End what a case made."""
        await self.cloud.ec2.terminate(self.control.alive())
        await asyncio.gather(*(self._remove(one) for one in await self.machines(keys)))
        await self.bus.redis.delete(f"{self.bus.prefix}unavailable")

    async def _remove(self, machine: Machine) -> None:
        resource = MACHINES if machine.kind == "Machine" else NODE_CLAIMS
        await self.kube.patch(resource, machine.name, {"metadata": {"finalizers": None}})
        if not machine.terminating:
            await self.kube.delete(resource, machine.name)


@pytest.fixture
async def world(
    kube: Kube, cloud: Cloud, bus: Bus, clock: FakeClock, metrics: Metrics, recorder: Recorder,
    control: Control, catalogue: Catalogue,
) -> World:  # fmt: skip
    await CatalogueStore(bus.redis, bus.prefix).put(encode_catalogue(catalogue), "one")
    settings = read(LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2")
    node_classes = NodeClasses(kube, cloud, clock, recorder, settings)
    use = TemplateUse(bus.redis, bus.prefix, clock)
    templates = Templates(node_classes, settings, TemplateStore(kube, cloud, clock, settings, use))
    await create_pool(kube)
    await create_node_pool(kube)
    await create_node_class(kube)
    return World(
        kube, cloud, bus, clock, metrics, recorder, control, node_classes, templates, settings
    )


async def begin(world: World, batch: int, outcome: str) -> list[str]:
    """Keys of machines that wait: of v1alpha5, or for seven of v1."""
    case = next(_numbers)
    names = [f"case-{case}-{number:02d}" for number in range(batch)]
    create, kind = (create_node_claim, "NodeClaim") if batch == 7 else (create_machine, "Machine")
    await asyncio.gather(*(create(world.kube, name) for name in names))
    OUTCOMES[outcome](world.control, batch)
    return [f"{kind}/{name}" for name in names]


async def work(world: World, life: Life, keys: Sequence[str]) -> None:
    """One incarnation works until all is done, or until it dies."""
    launch = world.incarnation(life)
    for _ in range(ROUNDS):
        ended = await asyncio.gather(*(launch.launch(key) for key in keys), return_exceptions=True)
        failed = [one for one in ended if isinstance(one, BaseException)]
        assert all(isinstance(one, RetryLater | Died) for one in failed), failed
        if life.dead or not failed:
            return
        world.clock.advance(21)


async def check(world: World, keys: Sequence[str], outcome: str) -> None:
    """I1, I2 and that no machine is lost."""
    alive = world.control.alive()
    assert len(alive) <= len(keys)
    garbage = world.garbage()
    for _ in range(2):  # a grace apart: what is lost is ended within 120 s
        await garbage.sweep()
        world.clock.advance(61)
    machines = await world.machines(keys)
    assert len(machines) == len(keys)
    owned = [provider_instance_id(one.provider_id) for one in machines if one.provider_id]
    assert sorted(world.control.alive()) == sorted(owned)
    assert await world.records() == []
    waiting = [one.key for one in machines if not one.provider_id and not one.terminating]
    assert waiting == []
    expected = {"partial": len(keys) // 2, "no capacity": 0}.get(outcome, len(keys))
    assert len(owned) == expected


async def effects_of(world: World, batch: int, outcome: str) -> list[str]:
    """What a launch changes in the world when nothing kills it, in order."""
    keys, life = await begin(world, batch, outcome), Life()
    await work(world, life, keys)
    await check(world, keys, outcome)
    await world.clean(keys)
    return life.effects


def moments(effects: int, samples: int) -> list[tuple[int, bool]]:
    """(number of the effect, after it?): evenly spread over all there are."""
    every = [(number, after) for number in range(1, effects + 1) for after in (False, True)]
    if len(every) <= samples:
        return every
    step = len(every) / samples
    return [every[int((index + 0.5) * step)] for index in range(samples)]


async def play(world: World, batch: int, outcome: str, samples: int) -> int:
    """Die at ``samples`` moments, one after the other. Returns how many there were."""
    effects = await effects_of(world, batch, outcome)
    assert {"create", "create_fleet"} <= set(effects)
    chosen = moments(len(effects), samples)
    for dies_at, after in chosen:
        keys, life = await begin(world, batch, outcome), Life(dies_at, after)
        await work(world, life, keys)
        assert life.dead, f"effect {dies_at} of {effects} was never reached"
        await work(world, Life(), keys)
        await check(world, keys, outcome)
        await world.clean(keys)
    return len(chosen)


@pytest.mark.parametrize(("batch", "outcome"), PER_CHANGE)
async def test_death_costs_no_instance_and_no_machine(
    world: World, batch: int, outcome: str
) -> None:
    """F1, F19, I1, I2, scenario 65: a few moments of death each."""
    assert await play(world, batch, outcome, SAMPLES[batch]) == SAMPLES[batch]


def test_the_matrix_has_its_size() -> None:
    """F1: about 60 moments per change."""
    assert sum(SAMPLES[batch] for batch, _ in PER_CHANGE) == 62


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("batch", SAMPLES)
async def test_death_at_any_moment(world: World, batch: int, outcome: str) -> None:
    """F1: every moment, or as many as are asked for, spread over all."""
    assert await play(world, batch, outcome, NIGHTLY_SAMPLES[batch]) > 0
