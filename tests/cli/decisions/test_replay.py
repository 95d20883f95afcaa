"""``dovetail replay`` on the records of a made day: the same again, or the first difference by name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from cli.decisions.replay import replay_all
from cli.decisions.replaying.again import decided_again, difference
from cli.main import commands
from shared.concurrency.clock import rfc3339
from shared.errors import ConfigurationError, NotFound
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.store import DirectoryStore
from shared.simulation.decisions.records import DecisionRecord
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import CLUSTER, Day

LONG = (pytest.mark.nightly, pytest.mark.timeout(1800))
POOL = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  limits: {resources: {cpu: "1"}}
  providerRef: {name: default}
"""


def another_version(*arguments: Any, **named: Any) -> Plan:
    """A planner that reckons each plan a little dearer."""
    plan = solve(*arguments, **named)
    return replace(plan, cost_micro_usd_per_hour=plan.cost_micro_usd_per_hour + 1)


async def day_in(
    folder: Path, rounds: int, planner: Any = solve, *, consolidates: bool = False, **settings: Any
) -> Archive:
    """The archive of a made day."""
    day = Day(
        DirectoryStore(folder), 7, SolverSettings(**settings), planner, consolidates=consolidates
    )
    await day.run(rounds)
    return Archive(DirectoryStore(folder), CLUSTER, "main")


async def bought(archive: Archive) -> DecisionRecord:
    """The first plan that created something."""
    async for record in archive.records():
        if record.created:
            return record
    raise AssertionError("nothing was bought")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a short day, which no test changes."""
    made = tmp_path_factory.mktemp("day")
    asyncio.run(day_in(made, 20))
    return made


@pytest.fixture(scope="module")
def plan_id(folder: Path) -> str:
    """Of a plan that created something."""
    return asyncio.run(bought(Archive(DirectoryStore(folder), CLUSTER, "main"))).id


def run(*words: str, folder: Path) -> Result:
    return CliRunner().invoke(commands, [*words, "--store", str(folder)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rounds", "policy"),
    [
        (30, "FewestNodes"),
        (12, "LowestCost"),
        pytest.param(1000, "FewestNodes", marks=LONG),
        pytest.param(1000, "LowestCost", marks=LONG),
    ],
)
async def test_every_recorded_round_of_a_day_comes_out_byte_for_byte_the_same(
    tmp_path: Path, rounds: int, policy: str
) -> None:
    """LowestCost takes a hundred times as long where machines are consolidated, so there they are not."""
    consolidates = policy == "FewestNodes"
    archive = await day_in(tmp_path, rounds, consolidates=consolidates, packing_policy=policy)
    done = await replay_all(archive, float("-inf"), float("inf"))
    assert (done.same, done.total) == (rounds, rounds)


async def test_one_record_is_restored_as_the_walk_over_all_restores_it(folder: Path) -> None:
    archive = Archive(DirectoryStore(folder), CLUSTER, "main")
    walked = [one async for one in archive.walk()]
    for one in (walked[0], walked[9], walked[-1]):
        assert (await archive.restore(one.record)).snapshot == one.snapshot


async def test_the_first_difference_is_named_by_its_path(folder: Path) -> None:
    archive = Archive(DirectoryStore(folder), CLUSTER, "main")
    record, snapshot = await archive.restore(await bought(archive))
    plan = decided_again(snapshot, record.question)
    assert isinstance(plan, Plan)
    first, *rest = plan.machines
    dearer = replace(first, pods=(*first.pods, "one-more"))
    found = difference(record, replace(plan, machines=(dearer, *rest)))
    path = f"machines[0].pods[{len(first.pods)}]"
    assert found == (path, "nothing", '"one-more"')


def test_what_another_version_decided_is_named_with_both_versions(tmp_path: Path) -> None:
    archive = asyncio.run(day_in(tmp_path, 3, another_version))
    record = asyncio.run(bought(archive))
    done = run("replay", "--decision", record.id, folder=tmp_path)
    assert done.exit_code == 2, done.output
    assert "the first difference is at cost_micro_usd_per_hour" in done.stdout
    assert "1.0.0 (commit 0123456789ab): " in done.stdout
    done = run("replay", "--from", rfc3339(NOW), "-o", "json", folder=tmp_path)
    found = json.loads(done.stdout)
    assert (done.exit_code, found["decisions"]) == (2, 3)
    assert found["different"][0]["recordedBy"] == "1.0.0 (commit 0123456789ab)"


def test_a_decision_is_found_by_its_id_and_by_its_time(folder: Path, plan_id: str) -> None:
    done = run("replay", "--decision", plan_id, folder=folder)
    assert (done.exit_code, "byte for byte the same" in done.stdout) == (0, True)
    assert run("replay", "--at", rfc3339(NOW + 500), folder=folder).exit_code == 0
    everything = run("replay", "--from", rfc3339(NOW), folder=folder)
    assert everything.stdout == "20 of 20 decisions are byte for byte the same\n"


def test_with_other_settings_both_outcomes_are_shown(folder: Path, plan_id: str) -> None:
    words = ("replay", "--decision", plan_id, "--with", "policy=LowestCost", "-o", "json")
    found = json.loads(run(*words, folder=folder).stdout)
    assert float(found["changed"]["$ an hour"]) <= float(found["recorded"]["$ an hour"])


def test_with_another_pool_its_limit_counts(folder: Path, plan_id: str, tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(POOL)
    words = ("replay", "--decision", plan_id, "--with-file", str(file), "-o", "json")
    found = json.loads(run(*words, folder=folder).stdout)
    assert found["recorded"]["machines"] > 0
    assert found["changed"]["machines"] == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--at", "yesterday"), "--at must be a time such as"),
        (("--with", "policy=Cheap", "--at", "1h"), "policy must be FewestNodes or LowestCost"),
        (("--with", "colour=red", "--at", "1h"), "give NAME=VALUE, with one of policy"),
        ((), "name one of --at, --decision and --from"),
        (("--at", "1h", "--from", "2h"), "name one of --at, --decision and --from"),
    ],
)
def test_wrong_options_are_refused_with_the_way_out(
    folder: Path, words: tuple[str, ...], text: str
) -> None:
    done = run("replay", *words, folder=folder)
    assert isinstance(done.exception, ConfigurationError)
    assert text in str(done.exception)


def test_what_is_not_recorded_is_an_error_that_names_the_list(folder: Path) -> None:
    done = run("replay", "--decision", "unknown", folder=folder)
    assert isinstance(done.exception, NotFound)
    assert "`dovetail decisions` lists what is" in str(done.exception)


async def test_a_log_with_a_hole_is_refused_and_never_replayed(tmp_path: Path) -> None:
    archive = await day_in(tmp_path, 20)
    await archive.store.delete((await archive.log.chunks())[1].name)
    fresh = Archive(archive.store, CLUSTER, "main")
    with pytest.raises(NotFound, match="a part of the log is gone"):
        await fresh.restore(await fresh.at(NOW + 1_000_000))


def test_a_decision_is_explained_with_price_input_and_version(folder: Path, plan_id: str) -> None:
    done = run("explain", "decision", plan_id, folder=folder)
    assert done.exit_code == 0, done.output
    assert f"{plan_id}: made" in done.stdout
    assert "by         1.0.0 (commit 0123456789ab), Python 3.11" in done.stdout
    assert "settings   packing_policy=FewestNodes" in done.stdout
    assert "machines   + " in done.stdout
    found = json.loads(run("explain", "decision", plan_id, "-o", "json", folder=folder).stdout)
    assert found["created"]
    assert len(found["input"]["digest"]) == 32


def test_decisions_are_listed_without_passes_that_found_nothing(folder: Path) -> None:
    words = ("decisions", "--from", rfc3339(NOW), "-o", "json")
    some = json.loads(run(*words, folder=folder).stdout)
    everything = json.loads(run(*words, "--all", folder=folder).stdout)
    assert len(everything) == 20
    assert len(some) < 20
    assert {one["kind"] for one in everything} == {"plan", "pass"}


async def test_what_past_shortages_added_to_prices_is_part_of_the_record(tmp_path: Path) -> None:
    """A round is made again with the history that it had, and without it another zone comes first."""
    store = DirectoryStore(tmp_path)
    day = Day(store, 7)
    day.shortages = tuple(
        (("on-demand", kind.name, "us-west-2a"), 10_000) for kind in day.catalogue.types
    )
    await day.run(6)
    archive = Archive(store, CLUSTER, "main")
    async for found in archive.walk():
        if found.record.created:
            assert found.record.input.shortages == day.shortages
            question, without = found.record.question, replace(found.snapshot, shortages=())
            assert difference(found.record, decided_again(found.snapshot, question)) is None
            assert difference(found.record, decided_again(without, question)) is not None
            return
    raise AssertionError("nothing was bought")
