"""``dovetail ledger cost`` as people meet it: a cluster in files; a table, JSON, or CSV in the columns of FOCUS."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.main import commands
from shared.simulation.ledgers.focus import COLUMNS
from tests.cli.decisions.plan.cluster_documents import cluster


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
