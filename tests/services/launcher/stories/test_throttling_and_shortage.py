"""EC2 at its worst, in stepped time: it throttles every launch for 43 s, or nearly all its pools are empty (F17, F18).

Where pools are empty the test plays the scheduler: a pod whose machine went for want of capacity gets a new one, as
long as an offering of its kind is not known to be empty (LCH-64).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from local.aws.capacity.stated import Statement
from shared.domain import labels as keys
from shared.domain.instance_types.types import encode_catalogue
from tests.services.launcher.crash_world import FORGETFUL, CrashWorld, crashes
from tests.services.launcher.launch.test_controller import REAL_TYPES
from tests.services.launcher.paced import (
    ask_until_done,
    make,
    most_within,
    one_instance_each,
    watched,
)
from tests.support.planning.builders import ZONES, make_catalogue, make_type

__all__ = ["crashes"]
on_one_loop = pytest.mark.asyncio(loop_scope="module")

WINDOW_SECONDS = 43.0
AFTER_SECONDS = 60.0
THROTTLED = {"code": "RequestLimitExceeded", "status": 503, "message": "Request limit exceeded."}
FAMILIES = ("m5", "c5", "r5", "m5a", "c5a", "r5a", "m5d", "c5d", "r5d", "m5n", "r5n", "m6i", "c6i")
SIZES = ("large", "xlarge", "2xlarge", "4xlarge")
MARKETS = (keys.SPOT, keys.ON_DEMAND)
EVERYTHING = {"instanceType": "*", "zone": "*", "capacityType": "*"}
EMPTY_PERCENT = 95
ROUNDS = 6
"""A pod learns of two markets: a machine for each, one that finds nothing left, and some more."""
Pool = tuple[str, str, str]


async def begin(world: CrashWorld) -> None:
    """Nothing of another test's weather is left."""
    world.control.post("clear")
    world.control.post("settings", **FORGETFUL)
    await world.empty()


async def outlast_throttling(
    world: CrashWorld, kind: str, calls_wanted: int, machines: int
) -> None:
    """``machines`` of so many different requests, one type each."""
    await begin(world)
    types = tuple(make_type(name) for name in REAL_TYPES[:calls_wanted])
    await world.catalogues.put(encode_catalogue(make_catalogue(types)), f"throttled-{machines}")
    names = [f"{kind.lower()}-{number:04d}" for number in range(machines)]
    wanted = {
        name: ([types[number % calls_wanted].name], ZONES[0]) for number, name in enumerate(names)
    }
    await make(world, kind, wanted)
    launch, calls = watched(world)
    world.control.post("faults", action="CreateFleet", seconds=3600, **THROTTLED)
    calls.throttled_seconds = WINDOW_SECONDS
    done = await ask_until_done(world, launch, [f"{kind}/{name}" for name in names], 600.0)
    first = calls.times[0]
    inside = [at for at in calls.times if at < first + WINDOW_SECONDS]
    assert len(inside) > 2, "it goes on trying"
    assert most_within(inside, 1.0) == 1
    assert len(done) == machines
    assert max(done.values()) <= first + WINDOW_SECONDS + AFTER_SECONDS
    assert calls.most_a_minute() <= 3
    assert len(await world.owned()) == machines
    assert await one_instance_each(world)
    assert await world.records() == []


@pytest.mark.slow
@on_one_loop
@pytest.mark.parametrize("kind", ["Machine", "NodeClaim"])
async def test_a_throttling_window_is_met_with_one_call_a_second(
    crashes: CrashWorld, kind: str
) -> None:
    """At most one CreateFleet a second inside it, and all that waited is launched within 60 s after."""
    await outlast_throttling(crashes, kind, calls_wanted=8, machines=12)


@on_one_loop
@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_two_thousand_pods_outlast_a_throttling_window(crashes: CrashWorld) -> None:
    """The same with a machine for each of 2,000 pods, in 40 different calls. Takes a minute of one core."""
    await outlast_throttling(crashes, "NodeClaim", calls_wanted=40, machines=2000)


@dataclass
class Group:
    """Pods that take one family in one zone."""

    family: str
    zone: str
    pods: dict[str, str] = field(default_factory=dict)
    """Pod -> name of its newest machine."""

    @property
    def types(self) -> list[str]:
        return [f"{self.family}.{size}" for size in SIZES]

    @property
    def pools(self) -> list[Pool]:
        return [(name, self.zone, market) for name in self.types for market in MARKETS]


def groups_of(number: int, pods: int) -> list[Group]:
    """So many groups, of so many pods each."""
    places = [(family, zone) for family in FAMILIES for zone in ZONES][:number]
    return [
        Group(*place, {f"{at:02d}-{pod:02d}": "" for pod in range(pods)})
        for at, place in enumerate(places)
    ]


async def outlast_shortage(world: CrashWorld, kind: str, groups: list[Group], seed: int) -> None:
    """95 % of all pools have nothing."""
    await begin(world)
    types = tuple(make_type(f"{f}.{s}", capacity_types=MARKETS) for f in FAMILIES for s in SIZES)
    await world.catalogues.put(encode_catalogue(make_catalogue(types)), "empty-pools")
    world.control.post("capacity", **EVERYTHING, available=0, percent=EMPTY_PERCENT, seed=seed)
    launch, calls = watched(world)
    for number in range(ROUNDS):
        unavailable = await world.unavailable.current()
        landed = {one.name for one in await world.machines() if one.provider_id}
        wanted = {}
        for group in groups:
            if all((market, *place) in unavailable for *place, market in group.pools):
                continue
            for pod, machine in group.pods.items():
                if machine not in landed:
                    group.pods[pod] = f"{kind.lower()}-{pod}-{number}"
                    wanted[group.pods[pod]] = (group.types, group.zone)
        if not wanted:
            break
        await make(world, kind, wanted)
        done = await ask_until_done(world, launch, [f"{kind}/{name}" for name in wanted], 120.0)
        assert len(done) == len(wanted), "each lands or goes"
    landed = {one.name for one in await world.machines() if one.provider_id}
    drawn = Statement("*", "*", "*", 0, percent=EMPTY_PERCENT, seed=seed)
    left = [group for group in groups if any(not drawn.matches(pool) for pool in group.pools)]
    assert 0 < len(left) < len(groups), "another seed, please"
    assert landed == {machine for group in left for machine in group.pods.values()}
    assert calls.most_a_minute() <= 3
    assert await one_instance_each(world)


@pytest.mark.slow
@on_one_loop
@pytest.mark.parametrize("kind", ["Machine", "NodeClaim"])
async def test_pods_land_in_the_pools_that_are_left(crashes: CrashWorld, kind: str) -> None:
    """Where any pool fits, within two rounds of planning; at most 3 calls a minute for a Machine."""
    await outlast_shortage(crashes, kind, groups_of(6, pods=2), seed=7)


@on_one_loop
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
async def test_many_pods_land_in_the_pools_that_are_left(crashes: CrashWorld, seed: int) -> None:
    """The same with 38 families and zones, four pods each."""
    await outlast_shortage(
        crashes, "NodeClaim" if seed % 2 else "Machine", groups_of(38, pods=4), seed
    )
