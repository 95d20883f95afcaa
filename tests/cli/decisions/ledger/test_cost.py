"""``dovetail ledger cost`` as people meet it: a cluster in files, or a recorded day; a table, JSON, or CSV in the
columns of FOCUS."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.main import commands
from shared.concurrency.clock import rfc3339
from shared.runtime.archive.store import DirectoryStore
from shared.simulation.ledgers.focus import COLUMNS
from tests.cli.decisions.plan.cluster_documents import cluster
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import ROUND_SECONDS, Day

ROUNDS = 100
END = NOW + ROUNDS * ROUND_SECONDS


def ledger(*words: str) -> Result:
    """Three nodes of 2 cores at $0.10, each with a pod of 1.5 cores."""
    given = yaml.safe_dump_all(cluster(3))
    return CliRunner().invoke(commands, ["ledger", "cost", "-f", "-", *words], input=given)


def test_the_table_has_parts_idle_and_the_total() -> None:
    done = ledger()
    assert done.exit_code == 0, done.output
    heading, first, second, total = [line.split() for line in done.stdout.splitlines()]
    assert heading == ["NAMESPACE", "$/HOUR", "$/MONTH", "SHARE"]
    assert first == ["default", "0.2250", "164.25", "75.0%"]
    assert second == ["(idle)", "0.0750", "54.75", "25.0%"]
    assert " ".join(total) == "$0.3000 an hour, $219.00 a month in all"


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("pool", ["NodePool/default"]),
        ("workload", ["default/ReplicaSet/web", "(idle)"]),
        ("label=app", ["(none)", "(idle)"]),
    ],
)
def test_the_parts_add_up_whatever_they_are_by(by: str, names: list[str]) -> None:
    found: dict[str, Any] = json.loads(ledger("--by", by, "-o", "json").stdout)
    assert [one["name"] for one in found["parts"]] == names
    assert sum(one["perHour"] for one in found["parts"]) == pytest.approx(found["perHour"])


def test_the_csv_has_the_columns_of_focus_and_the_same_total() -> None:
    found = list(csv.DictReader(io.StringIO(ledger("-o", "csv").stdout)))
    assert tuple(found[0]) == COLUMNS
    assert sum(float(row["BilledCost"]) for row in found) == pytest.approx(0.3)
    assert {row["x_Pod"] for row in found} == {
        "default/web-0",
        "default/web-1",
        "default/web-2",
        "",
    }


@pytest.mark.parametrize("by", ["team", "label="])
def test_a_wrong_dimension_is_named(by: str) -> None:
    assert "--by must be pool, namespace, workload or label=KEY" in str(
        ledger("--by", by).exception
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of two hours and a bit."""
    made = tmp_path_factory.mktemp("cost")
    asyncio.run(Day(DirectoryStore(made), 3).run(ROUNDS))
    return made


def period(folder: Path, *words: str, begin: float = NOW, end: float = END) -> Result:
    command = ["ledger", "cost", "--from", rfc3339(begin), "--to", rfc3339(end)]
    return CliRunner().invoke(commands, [*command, "--store", str(folder), *words])


@pytest.mark.slow
@pytest.mark.parametrize("by", ["pool", "namespace", "workload", "label=app"])
def test_the_parts_of_a_period_add_up_whatever_they_are_by(folder: Path, by: str) -> None:
    found = json.loads(period(folder, "--by", by, "-o", "json").stdout)
    whole = json.loads(period(folder, "-o", "json").stdout)["cost"]
    assert found["cost"] == pytest.approx(whole)
    assert sum(one["cost"] for one in found["parts"]) == pytest.approx(whole)
    assert found["from"] > rfc3339(NOW), "the log begins later"


def test_hours_add_up_to_the_period(folder: Path) -> None:
    found = json.loads(period(folder, "--every", "hour", "-o", "json").stdout)
    hours = found["periods"]
    assert [one["from"][14:16] for one in hours[1:]] == ["00"] * (len(hours) - 1)
    assert len(hours) == 3
    assert sum(one["cost"] for one in hours) == pytest.approx(found["cost"])
    text = period(folder, "--every", "hour").stdout
    assert "Over time" in text
    assert f"${found['cost']:.4f} from {found['from']} to {found['to']}" in text


def test_two_halves_cost_as_much_as_the_whole(folder: Path) -> None:
    """The machines and pods at the begin of a half are those that the log had then."""
    middle = NOW + ROUNDS // 2 * ROUND_SECONDS + 7
    halves = [
        json.loads(period(folder, "-o", "json", **part).stdout)
        for part in ({"end": middle}, {"begin": middle})
    ]
    whole = json.loads(period(folder, "-o", "json").stdout)
    gap = whole["perHour"] * ROUND_SECONDS / 3600
    assert sum(half["cost"] for half in halves) == pytest.approx(whole["cost"], abs=2 * gap)


def test_the_csv_of_a_period_has_the_same_total(folder: Path) -> None:
    found = list(csv.DictReader(io.StringIO(period(folder, "--every", "hour", "-o", "csv").stdout)))
    assert tuple(found[0]) == COLUMNS
    whole = json.loads(period(folder, "-o", "json").stdout)["cost"]
    assert sum(float(row["BilledCost"]) for row in found) == pytest.approx(whole, abs=1e-3)
    assert len({row["ChargePeriodStart"] for row in found}) == 3


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--every", "day"), "--to and --every are for a recorded period: add --from"),
        (("--from", "1h", "-f", "cluster.yaml"), "leave it out, or leave out --from"),
        (("--from", "1h", "--to", "2h"), "--to must be later than --from"),
    ],
)
def test_options_that_do_not_fit_are_named(folder: Path, words: tuple[str, ...], text: str) -> None:
    done = CliRunner().invoke(commands, ["ledger", "cost", "--store", str(folder), *words])
    assert text in str(done.exception)
