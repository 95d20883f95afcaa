"""F29, R6: the terminator is stopped dead before or after any of its side effects, and a new one takes over.

Afterby_pool: no pod was below its budget, nothing is left of the machine, and nobody else was touched.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from shared.domain.pools.generations import V1, V1ALPHA5
from tests.services.launcher.mortal import Died, Life
from tests.services.terminator.world import SPARE, Place, World

FLOOR = 2
MOST_TURNS = 60


class Shape(NamedTuple):
    """How a case begins."""

    generation: str
    by_node: bool
    """kubectl delete node, not of its machine."""
    deadline: bool


async def begin(world: World, shape: Shape) -> tuple[Place, str]:
    """A machine with two pods of an app that must keep two of its three, deleted."""
    grace = {"terminationGracePeriod": "10m"} if shape.deadline else {}
    (place,) = await world.places([shape.generation], **grace)
    app = f"app-{next(world.numbers)}"
    world.app(app, 3)
    for node in (place.node, place.node, SPARE):
        world.pod(app, node)
    await world.budget(app, app, minAvailable=FLOOR)
    if shape.by_node:
        world.delete_node(place.node)
    else:
        world.delete(place)
    return place, app


async def play(world: World, shape: Shape, life: Life) -> None:
    """One case to its end; whoever dies is replaced by one that lives."""
    place, app = await begin(world, shape)
    world.restart(life)
    for _ in range(MOST_TURNS):
        try:
            await world.step()
        except Died:
            world.restart()
        assert world.healthy(app) >= FLOOR
        await world.surroundings()
        world.clock.advance(3)
        if world.is_gone(place) and place.instance not in world.control.alive():
            break
    assert world.is_gone(place)
    assert place.instance not in world.control.alive()
    assert world.healthy(app) == 3
    world.store.delete("poddisruptionbudgets", app, group="policy", namespace="default")


async def die_once(world: World, chance: Random, known: dict[Shape, int]) -> None:
    """A case of a random shape with a random moment of death."""
    generation = chance.choice([V1, V1ALPHA5])
    shape = Shape(generation, chance.random() < 0.5, generation == V1 and chance.random() < 0.5)
    if shape not in known:
        whole = Life()
        await play(world, shape, whole)
        assert {"evict", "terminate", "patch", "publish"} <= set(whole.effects)
        known[shape] = len(whole.effects)
    life = Life(chance.randint(1, known[shape]), chance.random() < 0.5)
    await play(world, shape, life)
    assert life.dead


async def deaths(world: World, seeds: range) -> None:
    (other,) = await world.places([V1])
    before = world.store.get("nodes", other.node)
    known: dict[Shape, int] = {}
    for seed in seeds:
        await die_once(world, Random(seed), known)
    assert world.store.get("nodes", other.node) == before, "no stray mark"
    assert world.control.alive() == [other.instance], "no leaked instance"


@pytest.mark.slow
async def test_death_breaks_no_budget_and_leaves_nothing(world: World) -> None:
    """F29, TRM-15: a few moments of death."""
    await deaths(world, range(5))


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_death_at_fifty_moments(world: World) -> None:
    """F29: SIGTERM."""
    await deaths(world, range(50))
