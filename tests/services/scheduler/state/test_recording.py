"""Each round of the scheduler leaves a record from which the same decision can be made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.decisions.replaying.again import decided_again, difference
from shared.kube.client import Kube
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.recorder import DecisionRecorder
from shared.runtime.archive.store import DirectoryStore
from shared.simulation.decisions.records import PassOutcome, decode_outcome
from shared.solver.plan import Plan
from tests.services.conftest import CLUSTER
from tests.services.scheduler.conftest import Scheduler, pool_of
from tests.support.planning.builders import make_pod, make_pods
from tests.support.planning.disruption import make_running


@pytest.fixture
def more_settings(tmp_path: Path) -> dict[str, Any]:
    return {"record_store": str(tmp_path)}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(DirectoryStore(tmp_path), CLUSTER, "main")


def recorder_of(scheduler: Scheduler) -> DecisionRecorder:
    assert scheduler.parts.recorder is not None
    return scheduler.parts.recorder


async def test_every_round_can_be_restored_and_decided_again(
    scheduler: Scheduler, kube: Kube, archive: Archive
) -> None:
    pool = await pool_of(kube)
    await scheduler.show(nodepools=[pool], pods=make_pods(3, cpu="3"))
    await scheduler.plan()
    await scheduler.show(pods=[make_pod("late", cpu="7")])
    await scheduler.plan()
    await scheduler.disruption.step()
    await recorder_of(scheduler).close()

    found = [one async for one in archive.walk()]
    assert [one.record.kind for one in found] == ["plan", "plan", "pass", "pass"]
    assert [
        difference(one.record, decided_again(one.snapshot, one.record.question)) for one in found
    ] == [None] * 4


async def test_a_record_says_what_was_bought_why_and_for_how_much(
    scheduler: Scheduler, kube: Kube, archive: Archive
) -> None:
    pool = await pool_of(kube)
    too_large = make_pod("too-large", cpu="4000")
    await scheduler.show(nodepools=[pool], pods=[*make_pods(3, cpu="3"), too_large])
    await scheduler.plan()
    await recorder_of(scheduler).close()

    (record,) = [one async for one in archive.records()]
    plan = decode_outcome(record.kind, record.outcome)
    assert isinstance(plan, Plan)
    assert record.id == plan.id
    assert record.created == tuple(machine.name for machine in plan.machines)
    assert record.cost == pytest.approx(plan.cost_micro_usd_per_hour / 1e6)
    assert record.reason == "no node has room for 3 pods"
    assert [what for what, _ in record.rejected] == ["pod default/too-large"]
    assert record.versions.dovetail
    assert record.cluster == CLUSTER


async def test_machines_that_the_mirror_does_not_show_yet_are_part_of_the_input(
    scheduler: Scheduler, kube: Kube, archive: Archive
) -> None:
    pool = await pool_of(kube)
    await scheduler.show(nodepools=[pool], pods=make_pods(2, cpu="3"))
    await scheduler.plan()
    await scheduler.plan("again")
    await recorder_of(scheduler).close()

    _, second = [one async for one in archive.walk()]
    assert [m.name for m in second.snapshot.machines] == [
        m.name for m in scheduler.parts.cluster.view.machines()
    ]


async def test_a_pass_that_finds_the_same_again_is_not_stored_twice(
    scheduler: Scheduler, kube: Kube, archive: Archive
) -> None:
    pool = await pool_of(kube)
    running = make_running(pool=pool)
    await scheduler.show(
        nodepools=[pool], machines=[running.machine], nodes=[running.node], pods=[]
    )
    await scheduler.disruption.step()
    await scheduler.disruption.step()
    await recorder_of(scheduler).close()

    records = [one async for one in archive.records()]
    assert len(records) >= 4
    outcomes = [decode_outcome(one.kind, one.outcome) for one in records]
    assert all(isinstance(one, PassOutcome) for one in outcomes)
    raw = [bytes(one.outcome) for one in records]
    stored = sum(path.stat().st_size for path in (archive.store.root).rglob("log/*/*"))  # type: ignore[attr-defined]
    assert len(set(raw)) < len(raw)
    assert stored < sum(map(len, raw)) + 200_000


async def test_a_store_that_cannot_be_written_stops_no_decision(
    scheduler: Scheduler, kube: Kube, tmp_path: Path
) -> None:
    recorder = recorder_of(scheduler)
    (tmp_path / CLUSTER).write_text("a file where a folder must be")
    pool = await pool_of(kube)
    await scheduler.show(nodepools=[pool], pods=make_pods(2, cpu="3"))
    await scheduler.plan()
    await recorder.close()

    assert scheduler.planner.last_plan is not None
    assert scheduler.planner.last_plan.machines
    assert "decisions are not recorded: the archive" in recorder.problem
    assert msgspec.json.encode(recorder.status())
