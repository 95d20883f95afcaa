"""The whole watcher: what the mirror shows is what the API server has, whatever the watches went through (F15, I8)."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.watcher.conversion import KINDS, Kind
from services.watcher.mirror import comparison
from shared.concurrency.clock import SystemClock
from shared.kube import informer as informing
from shared.redis.bus import Bus
from tests.services.watcher.conftest import store_with_watched_kinds
from tests.support.aws.hiding_proxy import hiding_proxy
from tests.support.cluster.fixture import embedded_api_server
from tests.support.waiting import wait_until
from tests.support.watcher_world import World, watching


@pytest.fixture
def url() -> Iterator[str]:
    with embedded_api_server(store=store_with_watched_kinds()) as found:
        yield found


@pytest.fixture
async def world(url: str, bus: Bus, redis_url: str, tmp_path: Path) -> AsyncIterator[World]:
    async with watching(url, bus, redis_url, tmp_path) as made:
        yield made


def relists(world: World) -> dict[str, int]:
    found = world.service.status()["relists"]
    assert isinstance(found, dict)
    return found


async def gap(world: World) -> None:
    """No way to the API server until every kind has lost its position and has to list again."""
    before = relists(world)
    world.network.go_away()
    assert len(before) == len(KINDS)
    await wait_until(
        lambda: all(now > before[kind] for kind, now in relists(world).items()),
        "every watch gave up",
    )


@pytest.mark.slow
async def test_what_vanished_of_any_kind_during_a_gap_is_gone_from_the_mirror(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informing, "RESUMES", 1)
    for kind in KINDS:
        await world.create(kind, "stays")
        await world.create(kind, "goes")
    await world.in_step()
    await gap(world)
    for kind in KINDS:
        await world.delete(kind, "goes")
        await world.create(kind, "comes")
    world.network.refuses = False
    await world.in_step()
    mirror = world.mirror()
    assert all("goes" not in key for bodies in mirror.values() for key in bodies)
    assert all(len(bodies) >= 2 for bodies in mirror.values()), "no record is missing"
    assert world.crashes() == 0
    await wait_until(lambda: world.reasons() == [], "ready", show=world.reasons)


@pytest.mark.slow
async def test_a_watch_without_connection_is_told_until_it_is_open_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kind says so, with what is wrong; a short break says nothing."""
    monkeypatch.setattr(comparison, "UNSOUND_SECONDS", 0.5)
    await wait_until(lambda: world.reasons() == [], "ready", show=world.reasons)
    world.network.go_away()
    await wait_until(
        lambda: sum("have not been watched for" in text for text in world.reasons()) == len(KINDS),
        "every kind is told",
        show=world.reasons,
    )
    assert "no answer from" in next(text for text in world.reasons() if text.startswith("pods"))
    world.network.refuses = False
    await wait_until(lambda: world.reasons() == [], "ready again", show=world.reasons)


@pytest.mark.slow
async def test_a_watch_without_a_byte_is_told_and_opened_again(
    url: str, bus: Bus, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-open connection: nothing comes, and nothing fails."""
    monkeypatch.setattr(comparison, "SILENT_SECONDS", 1.0)
    async with (
        hiding_proxy(url, lambda _change: False) as proxy,
        watching(proxy.url, bus, redis_url, tmp_path, watch_silence=4.0) as world,
    ):
        proxy.muted = True
        await wait_until(
            lambda: any("pods has been silent for" in text for text in world.reasons()),
            "the silence is told",
            show=world.reasons,
        )
        await world.create(KINDS[0], "unseen")
        proxy.muted = False
        monkeypatch.setattr(comparison, "SILENT_SECONDS", 80.0)
        await world.in_step()
        assert world.crashes() == 0


ACTS = ("create", "change", "delete", "away", "back", "cut")
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTS), st.sampled_from(KINDS), st.sampled_from("abc")),
    min_size=4,
    max_size=16,
)


@dataclass
class Playing:
    """Acts on the cluster and on the network, whatever is there to act on."""

    world: World
    there: set[tuple[str, str]] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10_000)))

    async def act(self, act: str, kind: Kind, name: str) -> None:
        world, place = self.world, (kind.resource.kind, name)
        if act in ("away", "cut"):
            world.network.go_away()
        if act in ("back", "cut"):
            world.network.refuses = False
        if act == "create" and place not in self.there:
            await world.create(kind, name)
            self.there.add(place)
        if act == "change" and place in self.there:
            await world.change(kind, name, str(next(self.numbers)))
        if act == "delete" and place in self.there:
            await world.delete(kind, name)
            self.there.discard(place)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 3)  # each is a whole watcher
@given(STEPS)
async def test_any_history_with_any_gaps_ends_with_the_mirror_showing_the_cluster(
    redis_url: str, steps: list[tuple[str, Kind, str]]
) -> None:
    """F15, I8: and with no loop that ever ended."""
    name = f"any-{random.SystemRandom().getrandbits(40):x}"
    bus = Bus(redis_url, name, clock=SystemClock(), random=random.Random(1))
    with (
        TemporaryDirectory() as folder,
        embedded_api_server(store=store_with_watched_kinds()) as url,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(informing, "RESUMES", 1)
        async with watching(url, bus, redis_url, Path(folder)) as world:
            playing = Playing(world)
            for step in steps:
                await playing.act(*step)
            world.network.refuses = False
            await world.in_step()
            assert world.crashes() == 0
    await bus.close()
