"""The whole watcher: what the mirror shows is what the API server has, whatever the watches went through (F15, I8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from services.watcher.records import KINDS
from shared.bus import Bus
from shared.kube import informer as informing
from tests.services.conftest import store_with_our_kinds
from tests.support.cluster_fixture import embedded_api_server
from tests.support.waiting import wait_until
from tests.support.watcher_world import World, watching


@pytest.fixture
def url() -> Iterator[str]:
    with embedded_api_server(store=store_with_our_kinds()) as found:
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
    assert all("goes" not in key for keys in world.mirror().values() for key in keys)
    assert all(len(world.mirror()[kind.name]) >= 2 for kind in KINDS)
    assert world.crashes() == 0
    await wait_until(lambda: world.reasons() == [], "ready", show=world.reasons)
