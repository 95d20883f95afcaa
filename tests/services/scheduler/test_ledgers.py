"""``GET /explain/ledgers/…``: what rules cost and what consolidations saved, as the console shows them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.scheduler.ledgers.constraints import ConstraintsLedger
from services.scheduler.ledgers.regret import MOST_COMMANDS, RegretLedger
from shared.concurrency.clock import SystemClock, rfc3339
from shared.domain import labels as keys
from shared.kube.client import Kube
from shared.redis.mirror import Position
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.archive.store import DirectoryStore
from shared.runtime.services import Answer
from shared.solver.solve import SolverSettings
from tests.services.scheduler.conftest import SOUND, Scheduler, hear, pool_of
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_pod
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import CLUSTER, ROUND_SECONDS, Day

ROUNDS = 40
END = NOW + ROUNDS * ROUND_SECONDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made day, in which machines are consolidated and others bought again."""
    made = tmp_path_factory.mktemp("ledgers")
    asyncio.run(Day(DirectoryStore(made), 3, consolidates=True).run(ROUNDS))
    return made


def savings(folder: object, *, leading: bool = True) -> RegretLedger:
    place = ArchivePlace(str(folder), "", CLUSTER)
    return RegretLedger(place, FakeClock(wall=END), lambda: leading)


def read(answer: Answer) -> tuple[int, Any]:
    return answer.status, orjson.loads(answer.body)


@pytest.mark.slow
async def test_the_newest_consolidations_come_first_with_what_they_saved(folder: Path) -> None:
    status, found = read(await savings(folder).answer(b"", {"hours": "2"}))
    assert (status, found["to"]) == (200, rfc3339(END))
    times = [row["at"] for row in found["commands"]]
    assert 0 < len(times) <= MOST_COMMANDS
    assert times == sorted(times, reverse=True)
    assert sum(total["commands"] for total in found["totals"]) == len(times)
    assert all(row["saved"] <= row["promised"] + 1e-6 for row in found["commands"])


@pytest.mark.parametrize("hours", ["0", "-1", "745", "x", "", "1.5", "9" * 40])
async def test_a_wrong_number_of_hours_is_named(hours: str, folder: Path) -> None:
    status, found = read(await savings(folder).answer(b"", {"hours": hours}))
    assert status == 400
    assert found["error"].startswith("hours: give a whole number from 1 to 744")


async def test_without_records_the_answer_says_what_to_set() -> None:
    status, found = read(await savings("").answer(b"", {}))
    assert status == 404
    assert "RECORD_STORE" in found["error"]


async def test_a_standby_sends_the_caller_to_the_leader(folder: Path) -> None:
    status, found = read(await savings(folder, leading=False).answer(b"", {}))
    assert (status, found["standby"]) == (503, True)


def rules(scheduler: Scheduler) -> ConstraintsLedger:
    return ConstraintsLedger(scheduler.cluster, SolverSettings, SystemClock())


@pytest.mark.slow
async def test_each_rule_of_a_workload_has_its_price(scheduler: Scheduler, kube: Kube) -> None:
    pinned = {keys.CAPACITY_TYPE: "on-demand"}
    pod = make_pod("web", unschedulable=True, node_selector=pinned)
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[pod])
    status, found = read(await rules(scheduler).answer(b"", {}))
    assert status == 200
    (row,) = found["rules"]
    assert row["workload"].startswith("default/")
    assert row["rule"] == "capacity type"
    assert row["pricePerMonth"] == pytest.approx(row["pricePerHour"] * 730)


async def test_while_the_cluster_cannot_be_judged_nothing_is_priced(scheduler: Scheduler) -> None:
    await hear(scheduler, {**SOUND, "pods": Position(version="", sound=False, seconds=9.0)})
    status, found = read(await rules(scheduler).answer(b"", {}))
    assert status == 503
    assert "cannot be judged now" in found["error"]
