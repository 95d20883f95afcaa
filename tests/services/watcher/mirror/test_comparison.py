"""A watch that did not tell everything is found out by a fresh list, and the picture is mended (I8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cluster.api.streaming import watches
from services.watcher.conversion import KINDS
from services.watcher.mirror.comparison import (
    MISSING,
    NOT_LISTED,
    STALE,
    Difference,
    differences,
    in_both,
)
from shared.kube.informer import Key, Known
from shared.redis.bus import Bus
from tests.services.watcher.conftest import store_with_watched_kinds
from tests.support.aws.hiding_proxy import HidingProxy, hiding_proxy
from tests.support.cluster.fixture import embedded_api_server
from tests.support.waiting import wait_until
from tests.support.watcher_world import World, watching

A, B = Key("default", "a"), Key("", "b")
PODS, NODES = KINDS[0], KINDS[1]


def test_equal_pictures_do_not_differ() -> None:
    held = {A: Known("u", "3"), B: Known("v", "4")}
    assert differences(held, held, "9") == {}


@pytest.mark.parametrize(
    ("listed", "held", "direction"),
    [
        (Known("u", "3"), None, MISSING),
        (None, Known("u", "3"), NOT_LISTED),
        (Known("u", "8"), Known("u", "3"), STALE),
        (Known("new", "8"), Known("u", "3"), STALE),
    ],
)
def test_what_the_watch_should_have_told_is_a_difference(
    listed: Known | None, held: Known | None, direction: str
) -> None:
    found = differences({A: listed} if listed else {}, {A: held} if held else {}, "9")
    assert {key: one.direction for key, one in found.items()} == {A: direction}


@pytest.mark.parametrize(
    ("listed", "held"),
    [
        (None, Known("u", "10")),
        (Known("u", "3"), Known("u", "10")),
        (Known("u", "3"), Known("again", "10")),
    ],
)
def test_what_happened_after_the_list_is_none(listed: Known | None, held: Known) -> None:
    assert differences({A: listed} if listed else {}, {A: held}, "9") == {}


def test_an_object_that_went_after_the_first_list_is_not_in_the_second() -> None:
    first = {A: Difference(MISSING, "u"), B: Difference(NOT_LISTED, "v")}
    assert in_both(first, {B: Difference(NOT_LISTED, "v")}) == {B: Difference(NOT_LISTED, "v")}
    assert in_both(first, {A: Difference(MISSING, "another")}) == {}


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12)


@given(STEPS, st.data())
def test_a_watch_that_told_everything_never_differs_from_two_lists(
    steps: list[tuple[str, bool]], data: st.DataObject
) -> None:
    """At whatever moments the lists are made, and however far the watch is beyond them."""
    history: list[dict[Key, Known]] = [{}]
    for version, (name, keep) in enumerate(steps, start=1):
        state, key = dict(history[-1]), Key("", name)
        old = state.pop(key, None)
        if keep:
            state[key] = Known(old.uid if old else f"u{version}", str(version))
        history.append(state)
    last = len(history) - 1
    moments = [data.draw(st.integers(0, last)) for _ in range(4)]
    first_list, first_look, second_list, second_look = sorted(moments)
    found = [
        differences(history[listed], history[seen], str(listed))
        for listed, seen in ((first_list, first_look), (second_list, second_look))
    ]
    assert in_both(*found) == {}


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(watches, "BOOKMARK_SECONDS", 0.2)
    with embedded_api_server(store=store_with_watched_kinds()) as found:
        yield found


def named_hidden(change: dict[str, Any]) -> bool:
    """Pods and nodes whose label says so, and the deletion of what is called ghost."""
    metadata = change["object"]["metadata"]
    if metadata.get("name") == "ghost":
        return bool(change["type"] == "DELETED")
    return bool((metadata.get("labels") or {}).get("changed") == "hidden")


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[HidingProxy]:
    async with hiding_proxy(url, named_hidden) as made:
        yield made


@pytest.fixture
async def world(
    proxy: HidingProxy, bus: Bus, redis_url: str, tmp_path: Path
) -> AsyncIterator[World]:
    async with watching(proxy.url, bus, redis_url, tmp_path, watch_check_period="1s") as made:
        yield made


@pytest.mark.slow
async def test_what_a_watch_kept_to_itself_is_found_and_mended(
    world: World, proxy: HidingProxy
) -> None:
    """An object that was never shown, one that changed, and one that is gone: no later event tells of any."""
    for name in ("ghost", "stale"):
        await world.create(PODS, name)
    await world.in_step()
    await world.delete(PODS, "ghost")
    await world.change(PODS, "stale", "hidden")
    await world.create(NODES, "missing", changed="hidden")
    await wait_until(lambda: proxy.hidden == 3, "three events were hidden")
    await wait_until(lambda: bool(world.differences()), "a difference is told", show=world.reasons)
    await world.in_step()
    await wait_until(
        lambda: (
            world.differences() == {("Pod", NOT_LISTED): 1, ("Pod", STALE): 1, ("Node", MISSING): 1}
        ),
        "each difference is counted once",
        show=world.differences,
    )
    pods = world.reader.kinds["pods"]
    await wait_until(lambda: b'"hidden"' in pods["default/stale"], "the change is in the mirror")
    await wait_until(lambda: world.reasons() == [], "ready again", show=world.reasons)
    assert world.crashes() == 0


@pytest.mark.slow
async def test_a_difference_that_stays_keeps_the_watcher_from_being_ready(
    world: World, proxy: HidingProxy
) -> None:
    """Told as what it is, until a list agrees."""
    await world.create(PODS, "stale")
    await world.in_step()
    await world.change(PODS, "stale", "hidden")
    await wait_until(lambda: world.reasons() != [], "not ready", every=0.001)
    assert world.reasons() == ["pods differ from a fresh list (1 stale) and are read again"]
    await wait_until(lambda: world.reasons() == [], "ready again", show=world.reasons)
