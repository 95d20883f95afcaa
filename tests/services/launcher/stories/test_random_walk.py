"""Everything that can go wrong, mixed: crashes, a second launcher, lost answers, refusals, throttling, shortage, lists
that lag, and a Redis that forgets all (F1, F5, F9, F17..F20, F24, I1..I3).

After every step each live instance can be matched with a machine of its own. When the weather clears, every machine
that is wanted has its instance, and nothing else is left.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.launcher.garbage_collection.controller import GarbageCollection
from services.launcher.launch.controller import LaunchController
from shared.cloud.ec2.ownership import TOKEN_TAG
from shared.domain.instance_types.types import encode_catalogue
from shared.domain.nodes import provider_instance_id
from shared.errors import TransientError
from shared.kube.resources import MACHINES
from shared.redis.bus import RetryLater
from tests.services.conftest import create_machine
from tests.services.launcher.crash_world import CATALOGUE, FORGETFUL, CrashWorld, crashes
from tests.services.launcher.mortal import Died, Life

__all__ = ["crashes"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTLING = 30
"""Looks, half a minute apart, within which all must come to an end."""
REFUSALS = (
    "IdempotentParameterMismatch",
    "UnauthorizedOperation",
    "InvalidLaunchTemplateId.NotFound",
)


@dataclass
class Pod:
    """One launcher process."""

    life: Life
    launch: LaunchController
    garbage: GarbageCollection


@dataclass
class Walk:
    """``deal``: the walk's only chance. A step changes the world, or lets somebody work in it."""

    world: CrashWorld
    deal: random.Random
    pods: list[Pod] = field(default_factory=list)
    subjects: dict[str, frozenset[str]] = field(default_factory=dict)
    """Token of each record ever written -> uids of its machines."""
    wanted: set[str] = field(default_factory=set)
    """Names of machines that nobody deleted."""
    scarce: bool = False
    """Was there ever a shortage? Then the launcher may delete machines."""
    told: list[str] = field(default_factory=list)

    async def start(self) -> None:
        await self.world.empty()
        self.pods = [self._pod(), self._pod()]

    def _pod(self) -> Pod:
        """A new process, which mostly dies soon."""
        dies_at = None if self.deal.random() < 0.3 else self.deal.randint(1, 30)
        life = Life(dies_at, self.deal.random() < 0.5)
        return Pod(life, self.world.incarnation(life), self.world.garbage(life))

    # What happens

    async def step(self) -> None:
        """One of all that can happen."""
        steps: dict[Callable[[], Any], int] = {
            self.create: 3, self.deliver: 6, self.resync: 6, self.restart: 2, self.fault: 4,
            self.lag: 1, self.forget: 1, self.delete: 1, self.sweep: 2, self.terminate: 2,
            self.wait: 4,
        }  # fmt: skip
        (act,) = self.deal.choices(list(steps), list(steps.values()))
        self.told.append(act.__name__)
        for number, pod in enumerate(self.pods):
            if pod.life.dead and self.deal.random() < 0.5:
                self.pods[number] = self._pod()
        await act()
        await self.look()

    async def create(self) -> None:
        for _ in range(self.deal.choice((1, 1, 2, 5))):
            name = f"m-{len(self.told)}-{self.deal.getrandbits(30):08x}"
            types = self.deal.choice((("m5.large",), ("m5.large", "m5.xlarge")))
            await create_machine(self.world.kube, name, types)
            self.wanted.add(name)

    async def deliver(self) -> None:
        """A message, perhaps a repeated one."""
        if self.wanted:
            await self._launch(self.deal.choice(self.pods), [self.deal.choice(sorted(self.wanted))])

    async def resync(self) -> None:
        """Both may look at the same time, and each may know of some machines only."""
        pods = self.pods if self.deal.random() < 0.5 else [self.deal.choice(self.pods)]
        waiting = [m.name for m in await self.world.machines() if not m.provider_id]
        known = [
            [name for name in waiting if len(pods) == 1 or self.deal.random() < 0.7] for _ in pods
        ]
        await asyncio.gather(*map(self._launch, pods, known))

    async def _launch(self, pod: Pod, names: list[str]) -> None:
        ended = await asyncio.gather(
            *(pod.launch.launch(name) for name in names), return_exceptions=True
        )
        wrong = [e for e in ended if e is not None and not isinstance(e, RetryLater | Died)]
        assert not wrong, (wrong, self.told)
        await self._note_records()

    async def restart(self) -> None:
        self.pods[self.deal.randrange(2)] = self._pod()

    async def fault(self) -> None:
        kind = self.deal.choice(
            ("lost", "lost", "500", "500 after", "slow down", "refused", "short")
        )
        order: dict[str, dict[str, Any]] = {
            "lost": {"status": 0, "mode": "after"},
            "500": {"status": 500},
            "500 after": {"status": 500, "mode": "after"},
            "slow down": {"status": 503, "code": "RequestLimitExceeded", "count": 2},
            "refused": {"status": 403, "code": self.deal.choice(REFUSALS)},
        }
        if kind == "short":
            self.scarce = True
            self.world.control.post("fleets", give=self.deal.randrange(3))
        else:
            action = self.deal.choice(("CreateFleet", "CreateFleet", "DescribeInstances"))
            if action == "DescribeInstances":
                order[kind] = {"status": 503, "code": "Unavailable"}
            self.world.control.post("faults", action=action, **order[kind])

    async def lag(self) -> None:
        """F20: EC2's lists are as old as 90 s from now on."""
        seconds, seed = self.deal.choice((0, 30, 90)), self.deal.choice((None, 1))
        self.world.control.post("settings", describeLagSeconds=seconds, describeLagSeed=seed)

    async def forget(self) -> None:
        """F9: Redis is empty; the catalogue's loop publishes again what it holds."""
        await self.world.bus.redis.flushdb()
        await self.world.bus.start()
        await self._publish_catalogue()

    async def _publish_catalogue(self) -> None:
        await self.world.catalogues.put(encode_catalogue(CATALOGUE), CATALOGUE.generation)

    async def delete(self) -> None:
        """A person deletes a machine."""
        if self.wanted and self.deal.random() < 0.5:
            name = self.deal.choice(sorted(self.wanted))
            self.wanted.discard(name)
            await self.world.kube.delete(MACHINES, name)

    async def sweep(self) -> None:
        pod = self.deal.choice(self.pods)
        try:
            await pod.garbage.sweep()
        except (Died, TransientError):
            return

    async def terminate(self) -> None:
        """The terminator's part, as it does it: not before no record names the machine."""
        with suppress(TransientError):  # the launcher's next look orders it again
            await self.world.terminator.carry_out()
        records = await self.world.records()
        named = {one["uid"] for record in records for one in record["spec"]["machines"]}
        for machine in await self.world.machines():
            if not machine.terminating or machine.uid in named:
                continue
            if machine.provider_id:
                await self.world.cloud.ec2.terminate([provider_instance_id(machine.provider_id)])
            self.wanted.discard(machine.name)
            await self.world.kube.patch(MACHINES, machine.name, {"metadata": {"finalizers": None}})

    async def wait(self) -> None:
        self.world.wait(self.deal.choice((1, 5, 20, 60)))

    # What must hold

    async def _note_records(self) -> None:
        for one in self.world.written:
            spec = one["spec"]
            self.subjects[spec["clientToken"]] = frozenset(m["uid"] for m in spec["machines"])
        self.world.written.clear()

    async def look(self) -> None:
        """I1: there is a machine of its own for each live instance."""
        await self._note_records()
        alive = self.world.control.alive()
        tokens = {
            row["instanceId"]: row["tags"][TOKEN_TAG] for row in self.world.control.instances()
        }
        matched: dict[str, str] = {}
        for one in alive:
            assert self._match(one, tokens, matched, set()), (tokens[one], self.told)
        owned = await self.world.owned()
        assert len(set(owned)) == len(owned), ("an instance has two machines", self.told)

    def _match(
        self, one: str, tokens: dict[str, str], matched: dict[str, str], tried: set[str]
    ) -> bool:
        """An augmenting path."""
        for uid in sorted(self.subjects[tokens[one]] - tried):
            tried.add(uid)
            if uid not in matched or self._match(matched[uid], tokens, matched, tried):
                matched[uid] = one
                return True
        return False

    async def settle(self) -> None:
        """Good weather, and one launcher that lives."""
        self.world.control.post("clear")
        self.world.control.post("settings", **FORGETFUL)
        self.pods = [Pod(life := Life(), self.world.incarnation(life), self.world.garbage(life))]
        for _ in range(SETTLING):
            await self.resync()
            await self.sweep()
            await self.terminate()
            await self.look()
            if await self.is_calm():
                return
            self.world.wait(30)
        raise AssertionError(("it does not come to an end", self.told))

    async def is_calm(self) -> bool:
        machines = await self.world.machines()
        return (
            all(one.provider_id and not one.terminating for one in machines)
            and not await self.world.records()
            and sorted(self.world.control.alive()) == await self.world.owned()
        )

    async def check(self) -> None:
        """No machine is lost: whoever is gone was deleted by a person, or for want of capacity."""
        names = {one.name for one in await self.world.machines()}
        assert names <= self.wanted
        assert names == self.wanted or self.scarce, (self.wanted - names, self.told)


async def walk(world: CrashWorld, seed: int, steps: int) -> None:
    walked = Walk(world, random.Random(seed))
    await walked.start()
    try:
        for _ in range(steps):
            await walked.step()
        await walked.settle()
        await walked.check()
    finally:
        world.control.post("clear")
        world.control.post("settings", **FORGETFUL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_a_short_walk(crashes: CrashWorld, seed: int) -> None:
    await walk(crashes, seed, steps=20)


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(100, 160))
async def test_a_long_walk(crashes: CrashWorld, seed: int) -> None:
    await walk(crashes, seed, steps=120)
