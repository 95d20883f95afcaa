"""Collections of a process: found wherever a service holds on to them."""

from __future__ import annotations

from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from shared.concurrency.backoff import Backoff
from simulation.invariants.memory import MOST_ENTRIES, CollectionsAreBounded, sizes
from simulation.invariants.picture import Picture
from tests.simulation.invariants.builders import History


class Record(msgspec.Struct):
    """A value, as the catalogue is one."""

    types: list[int]


def ours(**attributes: Any) -> Any:
    """An object of one of our classes that holds on to these."""
    made = object.__new__(Backoff)
    made.__dict__.update(attributes)
    return made


def enclosing(value: object) -> Any:
    return lambda: value


@pytest.mark.parametrize("kind", [dict.fromkeys, list, set, deque])
def test_every_kind_of_collection_is_measured(kind: Any) -> None:
    assert sizes([ours(kept=kind(range(7)))]) == {"Backoff.kept": 7}


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda one: [one],
        lambda one: {"a": one},
        lambda one: partial(print, one),
        enclosing,
        lambda one: ours(other=one),
    ],
)
def test_collections_are_found_behind_what_holds_them(wrapped: Any) -> None:
    assert sizes([wrapped(ours(kept=[1, 2]))])["Backoff.kept"] == 2


def test_records_and_foreign_objects_are_not_walked() -> None:
    foreign = SimpleNamespace(kept=[1, 2])
    assert sizes([ours(record=Record([1, 2]), foreign=foreign)]) == {}


@pytest.mark.parametrize(("entries", "sound"), [(MOST_ENTRIES, True), (MOST_ENTRIES + 1, False)])
def test_a_collection_that_is_never_emptied_is_found(entries: int, sound: bool) -> None:
    # I12, F32
    world: Any = History()
    service = ours(kept=dict.fromkeys(range(entries)))
    world.processes = {"launcher-0": SimpleNamespace(services=[service])}
    found = CollectionsAreBounded(Picture()).check(world)
    assert (found == []) is sound
    assert sound or found == [
        f"Backoff.kept of launcher-0 has {entries} entries, at most {MOST_ENTRIES}"
    ]


def test_one_entry_for_each_object_of_the_cluster_is_sound() -> None:
    world: Any = History()
    world.pool()
    service = ours(kept=dict.fromkeys(range(MOST_ENTRIES + 1)))
    world.processes = {"launcher-0": SimpleNamespace(services=[service])}
    assert CollectionsAreBounded(Picture()).check(world) == []


def test_a_run_four_times_as_long_may_remember_four_times_as_much() -> None:
    world: Any = History()
    world.settings.minutes = 20.0
    service = ours(kept=dict.fromkeys(range(4 * MOST_ENTRIES)))
    world.processes = {"launcher-0": SimpleNamespace(services=[service])}
    assert CollectionsAreBounded(Picture()).check(world) == []
    service.kept[-1] = None
    assert len(CollectionsAreBounded(Picture()).check(world)) == 1
