"""Which record is found by an id, or by the first characters of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.domain.labels import SHORT_ID
from shared.errors import NotFound
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.store import DirectoryStore
from shared.simulation.decisions.records import DecisionRecord
from tests.support.planning.recorded_days import CLUSTER, Day


@pytest.fixture
async def archive(tmp_path: Path) -> Archive:
    """Of a day with some decisions."""
    store = DirectoryStore(tmp_path)
    day = Day(store, 1)
    await day.run(3)
    await day.recorder.close()
    return Archive(store, CLUSTER, "main")


async def newest(archive: Archive) -> DecisionRecord:
    records = [one async for one in archive.records(float("-inf"), float("inf"))]
    return max(records, key=lambda one: one.at)


async def test_the_first_characters_of_an_id_find_its_decision(archive: Archive) -> None:
    record = await newest(archive)
    assert (await archive.find(record.id)).id == record.id
    assert (await archive.find(record.id[:SHORT_ID])).id == record.id


async def test_fewer_characters_find_nothing(archive: Archive) -> None:
    record = await newest(archive)
    with pytest.raises(NotFound, match=r"dovetail decisions"):
        await archive.find(record.id[: SHORT_ID - 1])
