"""The recorder: bounded, beside the scheduler's work, and never in its way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from shared.domain.records import PODS
from shared.errors import Unavailable
from shared.runtime.archive import recorder as module
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.recorder import RETRY_SECONDS
from shared.runtime.archive.store import DirectoryStore
from shared.runtime.archive.writing import SERIES_SECONDS
from shared.simulation.decisions.records import DecisionRecord, PlanQuestion
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import make_pod
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import CLUSTER, Day


@dataclass(frozen=True)
class SickStore(DirectoryStore):
    """A store that can be away. ``tries``: names that were to be written."""

    away: list[str] = field(default_factory=list)
    tries: list[str] = field(default_factory=list)

    async def put(self, name: str, document: bytes) -> None:
        self.tries.append(name)
        if self.away:
            raise Unavailable(self.away[0])
        await super().put(name, document)


@pytest.fixture
def store(tmp_path: Path) -> SickStore:
    return SickStore(tmp_path)


def archive_of(store: DirectoryStore) -> Archive:
    return Archive(store, CLUSTER, "main")


async def restorable(store: DirectoryStore) -> int:
    return len([one async for one in archive_of(store).walk()])


async def test_a_store_that_is_away_for_a_while_loses_nothing(store: SickStore) -> None:
    day = Day(store, 1)
    store.away.append("disk full")
    await day.run(3)
    assert day.recorder.problem == "decisions are not recorded: disk full"
    tried = len(store.tries)
    await day.recorder.step()
    assert len(store.tries) == tried, "not again at once"
    store.away.clear()
    day.clock.advance(RETRY_SECONDS)
    await day.recorder.step()
    assert day.recorder.problem == ""
    assert await restorable(store) == 3


async def test_what_waits_is_bounded_and_a_new_series_begins_after_a_loss(
    store: SickStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 1000)
    day = Day(store, 1)
    store.away.append("no route")
    await day.run(2)
    assert day.recorder.writer.ready == []
    assert day.lost > 0
    store.away.clear()
    day.clock.advance(RETRY_SECONDS)
    await day.run(3)
    assert await restorable(store) == 3


async def test_more_changes_than_the_queue_holds_are_lost_and_later_rounds_are_not(
    store: SickStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_QUEUED", 20)
    day = Day(store, 1)
    for _ in range(30):
        day.change()
    assert "more changes than can be recorded" in day.recorder.problem
    assert len(day.recorder._queue) <= 22
    monkeypatch.undo()
    await day.run(2)
    assert await restorable(store) == 2


async def test_a_decision_whose_input_was_lost_is_kept_and_never_restored(
    store: SickStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = Day(store, 1)
    snapshot = day.snapshot()
    taken = day.recorder.taken(snapshot, snapshot, ())
    monkeypatch.setattr(module, "MOST_QUEUED", 1)
    day.put(PODS, make_pod("one-more"))
    monkeypatch.undo()
    question = PlanQuestion(NOW, SolverSettings())
    plan = solve(snapshot, now=NOW, settings=SolverSettings())
    day.decided(taken, plan.id, question, plan)
    await day.recorder.close()
    assert len([one async for one in archive_of(store).records()]) == 1
    lost: list[DecisionRecord] = []
    assert [one async for one in archive_of(store).walk(lost=lost)] == []
    assert len(lost) == 1


async def test_a_series_ends_after_an_hour_and_each_can_be_read_alone(store: SickStore) -> None:
    day = Day(store, 1)
    await day.run(3)
    day.clock.advance(SERIES_SECONDS)
    await day.run(3)
    archive = archive_of(store)
    first, second = dict.fromkeys(chunk.series for chunk in await archive.log.chunks())
    for chunk in await archive.log.chunks():
        if chunk.series == first:
            await store.delete(chunk.name)
    assert await restorable(store) == 3
    assert second > first


async def test_a_standby_writes_nothing(store: SickStore) -> None:
    day = Day(store, 1)
    for _ in range(5):
        day.change()
        day.clock.advance(60)
        await day.recorder.step()
    await day.recorder.close()
    assert store.tries == []


async def test_two_decisions_on_the_same_moment_can_both_be_restored(store: SickStore) -> None:
    """A pass looks at the machines while a plan for pods is made."""
    day = Day(store, 1)
    await day.run(1)
    snapshot = day.snapshot()
    question = PlanQuestion(day.clock.now(), SolverSettings())
    plan = solve(snapshot, now=question.now, settings=question.settings)
    both = [day.recorder.taken(snapshot, snapshot, ()) for _ in range(2)]
    for taken in both:
        day.decided(taken, plan.id, question, plan)
    await day.recorder.close()
    assert await restorable(store) == 3
