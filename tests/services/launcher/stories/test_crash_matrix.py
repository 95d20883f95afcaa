"""F1: the launcher is stopped dead before and after each side effect, and a new one takes over.

Every case is one moment of death in the launch of 1, 7 or 50 machines while EC2 does one of five things. Afterwards:
no machine has or ever had two instances, no instance is without a machine once 120 s are over, no machine is forgotten.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.redis.bus import RetryLater
from tests.services.conftest import Control, create_machine, create_node_claim
from tests.services.launcher.crash_world import CrashWorld, crashes, launch_rounds
from tests.services.launcher.mortal import Died, Life

__all__ = ["crashes"]
on_one_loop = pytest.mark.asyncio(loop_scope="module")

ROUNDS = 20
"""Rounds, 21 s apart, after which nothing may be left to do."""
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
BATCHES = (1, 7, 50)
PER_CHANGE = {1: 6, 7: 5, 50: 1}
"""Batch -> moments of death of each outcome in every run of the tests."""
NIGHTLY = {1: 1000, 7: 1000, 50: 60}
"""The same at night: all there are, and of the hundreds of 50 machines a share."""
_numbers = itertools.count()


class Case(NamedTuple):
    """The launcher dies at its ``effect``-th side effect, from 1 on: before it or after it."""

    batch: int
    outcome: str
    effect: int
    after: bool

    def __str__(self) -> str:
        return f"{self.batch}-{self.outcome}-{'after' if self.after else 'before'} {self.effect}"


def effects(batch: int, outcome: str) -> int:
    """Side effects of a launch that nothing kills.

    The record is written, the call is made, the record is deleted; each machine gets labels and status, or is deleted
    with two messages. Shortage is remembered; a call without answer goes again, and every machine says that it waits.
    """
    launched = launched_of(batch, outcome)
    again = batch + 1 if outcome in ("answer lost", "server error") else 0
    shortage = 1 if outcome in ("partial", "no capacity") else 0
    return 3 + 2 * launched + 3 * (batch - launched) + again + shortage


def launched_of(batch: int, outcome: str) -> int:
    """How many machines of a batch get an instance."""
    return {"partial": batch // 2, "no capacity": 0}.get(outcome, batch)


def cases(most: dict[int, int]) -> list[Case]:
    """``most`` of each batch and outcome, evenly spread over all moments."""
    found = []
    for batch, outcome in itertools.product(BATCHES, OUTCOMES):
        moments = itertools.product(range(1, effects(batch, outcome) + 1), (False, True))
        every = [Case(batch, outcome, *moment) for moment in moments]
        number = min(most[batch], len(every))
        found += [every[int((index + 0.5) * len(every) / number)] for index in range(number)]
    return found


async def begin(world: CrashWorld, batch: int, outcome: str) -> list[str]:
    """Keys of machines that wait: of v1alpha5, or for seven of v1."""
    await world.empty()
    case = next(_numbers)
    names = [f"case-{case}-{number:02d}" for number in range(batch)]
    create, kind = (create_node_claim, "NodeClaim") if batch == 7 else (create_machine, "Machine")
    await asyncio.gather(*(create(world.kube, name) for name in names))
    OUTCOMES[outcome](world.control, batch)
    return [f"{kind}/{name}" for name in names]


async def live(world: CrashWorld, life: Life, keys: Sequence[str]) -> None:
    """One incarnation works until all is done, or until it dies."""
    left = await launch_rounds(world, world.incarnation(life), life, keys, ROUNDS)
    assert all(isinstance(one, Died if life.dead else RetryLater) for one in left), left
    assert life.dead or not left, "it does not come to an end"


async def check(world: CrashWorld, keys: Sequence[str], outcome: str) -> None:
    """I1, I2, and that no machine is lost."""
    garbage = world.garbage()
    for _ in range(2):  # a grace apart: what is lost is ended within 120 s
        await garbage.sweep()
        world.clock.advance(61)
    machines = await world.machines()
    owned = await world.owned()
    assert sorted(m.key for m in machines) == sorted(keys), "a machine is lost"
    assert len(set(owned)) == len(owned), "an instance has two machines"
    assert sorted(world.control.alive()) == owned, "an instance has no machine"
    assert world.started() == owned, "a machine had two instances"
    if await world.records():
        # Of a launch that nobody waits for any more: kept until EC2 would show what it started.
        world.clock.advance(ALL_LISTED_SECONDS)
        await garbage.sweep()
    assert await world.records() == []
    assert all(one.provider_id or one.terminating for one in machines), "a machine is forgotten"
    assert len(owned) == launched_of(len(keys), outcome)


async def survive(world: CrashWorld, case: Case) -> None:
    """Die as the case says, start again, and check."""
    keys, life = await begin(world, case.batch, case.outcome), Life(case.effect, case.after)
    await live(world, life, keys)
    assert life.dead, f"effect {case.effect} was never reached: {life.effects}"
    await live(world, Life(), keys)
    await check(world, keys, case.outcome)


@pytest.mark.slow
@on_one_loop
@pytest.mark.parametrize("case", cases(PER_CHANGE), ids=str)
async def test_death_costs_no_instance_and_no_machine(crashes: CrashWorld, case: Case) -> None:
    """F1, F19, I1, I2, ACC-65: a few moments of death of each batch and outcome."""
    await survive(crashes, case)


@on_one_loop
@pytest.mark.nightly
@pytest.mark.parametrize("case", cases(NIGHTLY), ids=str)
async def test_death_at_any_moment(crashes: CrashWorld, case: Case) -> None:
    """F1: every moment of small batches, sixty of each outcome of large ones."""
    await survive(crashes, case)


@pytest.mark.slow
@on_one_loop
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_the_cases_name_every_side_effect(crashes: CrashWorld, outcome: str) -> None:
    """A launch that nothing kills has as many effects as the matrix has moments for."""
    keys, life = await begin(crashes, 7, outcome), Life()
    await live(crashes, life, keys)
    assert len(life.effects) == effects(7, outcome), life.effects
    await check(crashes, keys, outcome)


def test_the_matrix_has_its_size() -> None:
    """F1: at least 60 cases per change and 540 at night, no two alike."""
    assert len(set(cases(PER_CHANGE))) >= 60
    assert len(set(cases(NIGHTLY))) >= 540
