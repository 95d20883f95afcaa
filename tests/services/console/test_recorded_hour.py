"""The hour before the console started, as the scheduler recorded it: each moment shows what the mirror held then."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from services.console.feed.history import HORIZON_SECONDS, History, pack
from services.console.picture.picture import KINDS, Picture
from services.console.recorded_hour import hour_before
from services.console.reports.decisions import Decisions
from shared.domain.records import PODS
from shared.errors import InvalidObject, Unavailable
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.archive.store import DirectoryStore
from shared.simulation.decisions.names import chunk_of
from tests.services.console.conftest import NOBODY, Start
from tests.support.planning.builders import make_pod
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import CLUSTER, ROUND_SECONDS, Day

Rows = tuple[set[str], dict[str, str]]
"""Ids of nodes; pod -> id of its node."""


def rows_of(kinds: Mapping[str, Mapping[str, bytes]]) -> Rows:
    picture = Picture()
    for kind in KINDS:
        for key, body in kinds.get(kind, {}).items():
            picture.note(kind, key, body)
    picture.take()
    return set(picture.nodes), {key: row.node for key, row in picture.pods.items()}


def shown(snapshot: Mapping[str, Any] | None) -> Rows:
    assert snapshot is not None
    nodes = {row["id"] for row in snapshot["nodes"]}
    return nodes, {row["id"]: row.get("node", "") for row in snapshot["pods"]}


async def recorded(
    folder: Path, seed: int, rounds: int, begin: float = NOW
) -> tuple[Day, dict[float, Rows]]:
    """A day, and what the mirror held a little after each of its rounds."""
    day, seen = Day(DirectoryStore(folder), seed, begin=begin), {}
    for _ in range(rounds):
        await day.run(1)
        seen[day.clock.now() + ROUND_SECONDS / 2] = rows_of(day.kinds)
    return day, seen


def place_of(folder: Path) -> ArchivePlace:
    return ArchivePlace(str(folder), "", CLUSTER)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_each_moment_of_the_hour_shows_what_the_mirror_held(
    tmp_path: Path, seed: int
) -> None:
    day, seen = await recorded(tmp_path, seed, rounds=60)
    end = day.clock.now() + ROUND_SECONDS
    found = await hour_before(place_of(tmp_path), end)
    recording = found.history.recording()
    moments = [at for at in seen if at >= end - HORIZON_SECONDS + ROUND_SECONDS]
    assert len(moments) > 40
    assert len({chunk.series for chunk in await chunks(tmp_path)}) > 1, "a base is in between"
    for at in moments:
        assert shown(recording.at(at)) == seen[at]
    assert len(recording.parts) > 40, "a picture each minute"


async def chunks(folder: Path) -> list[Any]:
    listed = await DirectoryStore(folder).listing(f"{CLUSTER}/")
    return [chunk for chunk in (chunk_of(one.name) for one in listed) if chunk]


async def test_what_comes_after_the_hour_is_left_out(tmp_path: Path) -> None:
    day, seen = await recorded(tmp_path, 1, rounds=20)
    times = sorted(seen)
    found = await hour_before(place_of(tmp_path), times[9])
    assert shown(found.history.recording().at(day.clock.now())) == seen[times[9]]
    assert all(row["at"] <= times[9] for row in found.decisions)


async def test_a_pending_pod_has_the_reason_that_the_plan_gave(tmp_path: Path) -> None:
    day = Day(DirectoryStore(tmp_path), 1)
    day.put(PODS, make_pod("giant", cpu="5000"))
    await day.run(2)
    found = await hour_before(place_of(tmp_path), day.clock.now() + 1)
    snapshot = found.history.recording().at(day.clock.now())
    assert snapshot is not None
    (giant,) = (row for row in snapshot["pods"] if row["id"] == "default/giant")
    assert "cpu" in giant["verdict"]


async def test_decisions_that_created_machines_are_listed_before_those_of_the_status(
    tmp_path: Path,
) -> None:
    day, _ = await recorded(tmp_path, 2, rounds=12)
    found = await hour_before(place_of(tmp_path), day.clock.now() + 1)
    assert found.decisions
    decisions = Decisions()
    now = {"id": "live", "at": found.decisions[-1]["at"], "text": "listed by the scheduler"}
    decisions.add({"decisions": [now]})
    decisions.add_recorded(found.decisions)
    ids = [row["id"] for row in decisions.documents()]
    assert ids[0].startswith("live@")
    assert len(ids) == len(found.decisions), "the one that both know is there once"


async def test_a_store_without_records_shows_nothing(tmp_path: Path) -> None:
    found = await hour_before(place_of(tmp_path / "none"), 1_000_000.0)
    assert found.history.recording().at(1_000_000.0) is None
    assert found.decisions == []


async def test_a_damaged_chunk_is_refused_by_its_name(tmp_path: Path) -> None:
    day, _ = await recorded(tmp_path, 1, rounds=3)
    name = (await chunks(tmp_path))[0].name
    (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises((InvalidObject, Unavailable), match=name.rpartition("/")[2]):
        await hour_before(place_of(tmp_path), day.clock.now())


def test_an_earlier_hour_goes_before_the_first_picture_and_keeps_to_the_bytes() -> None:
    def history(begin: int, most: int = 1 << 20) -> History:
        made = History(most_bytes=most)
        for at in range(begin, begin + 300, 60):
            made.add_picture(float(at), pack(b'{"id":"x","at":%d,"nodes":[],"pods":[]}' % at))
        return made

    live = history(300)
    live.put_before(history(120))
    assert live.span(540.0) == (120.0, 540.0)
    assert [part.begin for part in live.recording().parts] == [120, 180, 240, *range(300, 600, 60)]
    small = history(300, most=sum(len(part.body) for part in history(300).recording().parts))
    small.put_before(history(0))
    assert small.span(540.0) == (300.0, 540.0)


@pytest.mark.slow
async def test_a_console_that_starts_shows_the_hour_before_from_the_record(
    start_console: Start, tmp_path: Path
) -> None:
    begin = time.time() - 41 * ROUND_SECONDS
    _, seen = await recorded(tmp_path, 3, rounds=40, begin=begin)
    first = min(seen)
    async with start_console(record_store=str(tmp_path), cluster_name=CLUSTER, **NOBODY) as console:
        past = await console.until("/api/history", lambda found: found["from"] <= first)
        at = max(seen)
        assert past["from"] <= at <= past["to"]
        _, snapshot = await console.get(f"/api/history/at?t={at}")
        assert shown(snapshot) == seen[at]
        _, listed = await console.get("/api/decisions")
        assert listed["decisions"]
