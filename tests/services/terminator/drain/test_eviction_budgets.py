"""F22: whatever holds a drain, no budget is broken before its machine's deadline, and after it nothing waits (I6)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from shared.concurrency.clock import rfc3339
from shared.domain.pools.generations import V1, V1ALPHA5
from tests.services.terminator.world import SPARE, Place, World

HELD = {"karpenter.sh/do-not-disrupt": "true"}
TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
BLOCKS = ("free", "rolling", "closed", "two budgets", "crash-looping", "held", "slow")
LATE_SECONDS = 60


@dataclass(frozen=True)
class App:
    """``floor``: healthy pods that there must be until ``earliest``, when a deletion may begin."""

    name: str
    floor: int
    earliest: float


@dataclass(frozen=True)
class Case:
    place: Place
    deadline: float
    apps: tuple[App, ...]


async def begin(world: World, chance: Random, graces: tuple[int, ...]) -> Case:
    """A machine with some apps that hold it, deleted."""
    seconds = chance.choice(graces)
    generation = chance.choice([V1, V1, V1ALPHA5])
    (place,) = await world.places([generation], terminationGracePeriod=f"{seconds}s")
    deadline = world.clock.now() + seconds
    blocks = chance.sample(BLOCKS, chance.randint(1, 3))
    apps = [await add_app(world, chance, block, place, deadline) for block in blocks]
    if generation == V1ALPHA5:
        note = {"metadata": {"annotations": {TIMESTAMP: rfc3339(deadline)}}}
        world.store.patch("machines", place.machine, note, group="karpenter.sh")
    world.delete(place)
    return Case(place, deadline, tuple(apps))


async def add_app(world: World, chance: Random, block: str, place: Place, deadline: float) -> App:
    name = f"app-{next(world.numbers)}"
    grace = 600 if block == "slow" else chance.choice([1, 5, 15, 30])
    here, elsewhere = (2, 1) if block == "rolling" else (1, int(block in ("free", "slow")))
    world.app(name, here + elsewhere)
    notes = HELD if block == "held" else {}
    for _ in range(here):
        world.pod(
            name, place.node, ready=block != "crash-looping", annotations=notes,
            terminationGracePeriodSeconds=grace,
        )  # fmt: skip
    for _ in range(elsewhere):
        world.pod(name, SPARE)
    if block == "slow" or chance.random() < 0.3:
        world.slow.add(name)
    floor = await protect(world, block, name)
    return App(name, min(floor, world.healthy(name)), deadline - grace)


async def protect(world: World, block: str, app: str) -> int:
    """Its budgets; how many healthy pods they ask for."""
    if block == "two budgets":
        await world.budget(f"{app}-second", app, minAvailable=0)
    if block == "closed":
        await world.budget(app, app, maxUnavailable=0)
    elif block != "held":
        await world.budget(app, app, minAvailable=2 if block == "rolling" else 1)
    return 2 if block == "rolling" else 1


async def play(world: World, seed: int, number: int, graces: tuple[int, ...], pace: float) -> None:
    """So many machines at once, to their end."""
    chance = Random(seed)
    cases = [await begin(world, chance, graces) for _ in range(number)]
    last = max(case.deadline for case in cases) + LATE_SECONDS
    while world.clock.now() <= last:
        await world.turn(pace)
        check_budgets(world, cases)
        check_lateness(world, cases)
    await world.until_gone(*(case.place for case in cases))
    assert world.control.alive() == []
    for case in cases:
        for app in case.apps:
            assert {pod["spec"]["nodeName"] for pod in world.pods(app.name)} == {SPARE}


def check_budgets(world: World, cases: list[Case]) -> None:
    """The time of the last step is one pace ago, so this is a little too strict, never too lax."""
    for case in cases:
        for app in case.apps:
            if world.clock.now() < app.earliest:
                assert world.healthy(app.name) >= app.floor, (case.place, app)


def check_lateness(world: World, cases: list[Case]) -> None:
    late = [case.place for case in cases if world.clock.now() > case.deadline + LATE_SECONDS]
    if late:
        assert not {place.instance for place in late} & set(world.control.alive())


@pytest.mark.slow
async def test_budgets_hold_until_the_deadline_and_no_longer(world: World) -> None:
    """F22, TRM-08..TRM-12: six machines at once."""
    await play(world, 22, 6, (40, 60, 90), pace=3.0)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(5))
async def test_a_hundred_budgets_hold_until_their_deadlines(world: World, seed: int) -> None:
    """F22: twenty machines at once, five times."""
    await play(world, seed, 20, (60, 120, 300, 600), pace=4.0)
