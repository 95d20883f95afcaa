"""``dovetail ledger regret`` on the records of a made day."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import commands
from shared.concurrency.clock import rfc3339
from shared.errors import ConfigurationError, NotFound
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.regret import regret_of
from shared.runtime.archive.store import DirectoryStore
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import CLUSTER, ROUND_SECONDS, Day

ROUNDS = 60
END = NOW + ROUNDS * ROUND_SECONDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made day, in which machines are consolidated and others bought again."""
    made = tmp_path_factory.mktemp("regret")
    asyncio.run(Day(DirectoryStore(made), 3, consolidates=True).run(ROUNDS))
    return made


def regret(folder: Path, *words: str) -> Result:
    period = ("--from", rfc3339(NOW), "--to", rfc3339(END))
    command = ["ledger", "regret", *period, "--store", str(folder), *words]
    return CliRunner().invoke(commands, command)


def test_every_command_has_its_promise_and_the_totals_are_their_sums(folder: Path) -> None:
    found = json.loads(regret(folder, "-o", "json").stdout)
    rows, totals = found["commands"], found["totals"]
    assert len(rows) > 3
    assert all(row["promisedPerHour"] > 0 and row["net"] <= row["saved"] for row in rows)
    assert sum(total["commands"] for total in totals) == len(rows)
    assert sum(t["net"] for t in totals) == pytest.approx(sum(r["net"] for r in rows), abs=1e-4)
    assert {row["until"] for row in rows} > {"bought again"}


def test_no_command_saves_more_than_it_promised_in_its_time(folder: Path) -> None:
    for row in json.loads(regret(folder, "-o", "json").stdout)["commands"]:
        assert row["saved"] <= row["promised"] + 1e-6, row


def test_the_table_has_the_newest_commands_and_says_how_many_there_are(folder: Path) -> None:
    lines = regret(folder, "--most", "2").stdout.splitlines()
    assert lines[0].split()[:4] == ["AT", "ID", "POOL", "REASON"]
    assert lines[1] > lines[2]
    assert "the newest 2 of" in lines[-1]


def test_the_csv_has_a_row_for_each_command(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(regret(folder, "-o", "csv").stdout)))
    ids = [one["id"] for one in json.loads(regret(folder, "-o", "json").stdout)["commands"]]
    assert [row["id"] for row in rows] == ids


async def test_a_part_of_the_period_has_the_same_commands_with_the_same_savings(
    folder: Path,
) -> None:
    """The machines of before are known from the log, so a later begin changes no account that it has."""
    archive = Archive(DirectoryStore(folder), CLUSTER, "main")
    whole, _ = await regret_of(archive, NOW, END)
    part, _ = await regret_of(archive, NOW + 20 * ROUND_SECONDS + 1, END)
    assert 0 < len(part.accounts) < len(whole.accounts)
    for id_, account in part.accounts.items():
        assert account.moved_pods == whole.accounts[id_].moved_pods
        assert account.removed == whole.accounts[id_].removed


def test_a_period_without_records_and_a_wrong_time_are_named(folder: Path) -> None:
    words = ["ledger", "regret", "--store", str(folder)]
    done = CliRunner().invoke(commands, [*words, "--from", "2000001h", "--to", "2000000h"])
    assert isinstance(done.exception, NotFound)
    done = CliRunner().invoke(commands, [*words, "--from", "yesterday"])
    assert isinstance(done.exception, ConfigurationError)
    assert "--from must be a time such as" in str(done.exception)


async def test_a_series_without_a_part_is_counted_and_the_next_one_goes_on(tmp_path: Path) -> None:
    await Day(DirectoryStore(tmp_path), 3, consolidates=True).run(ROUNDS + 40)
    archive = Archive(DirectoryStore(tmp_path), CLUSTER, "main")
    chunks = await archive.log.chunks()
    (tmp_path / chunks[1].name).unlink()
    assert len({chunk.series for chunk in chunks}) > 1
    found, gaps = await regret_of(Archive(DirectoryStore(tmp_path), CLUSTER, "main"), NOW, END * 2)
    assert gaps == 1
    assert found.accounts
